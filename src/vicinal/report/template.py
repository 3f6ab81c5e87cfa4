"""The page around the contents: nothing in it comes from elsewhere, and nothing may."""

from string import Template

PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
:root { --paper: #ffffff; --ink: #1b1f24; --faint: #57606a; --line: #d0d7de; --tint: #f3f5f7; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --ink: #e9ecef; --faint: #a9b1ba; --line: #3a414a; --tint: #1e2329; }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 66rem; padding: 1.5rem 1rem 3rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: break-word;
}
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .75rem; }
h2 {
  font-size: 1.3rem; margin: 2.5rem 0 .5rem; padding-top: 1rem;
  border-top: 1px solid var(--line);
}
p { max-width: 44rem; margin: .6rem 0; }
.lead { font-size: 1.1rem; }
footer, figcaption, caption { color: var(--faint); }
footer { margin-top: 3rem; font-size: .9rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table {
  border-collapse: collapse; min-width: min(100%, 26rem); font-variant-numeric: tabular-nums;
}
caption { text-align: left; font-size: .95rem; padding-bottom: .4rem; }
th, td { padding: .35rem .9rem .35rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; vertical-align: bottom; }
thead th { border-bottom: 2px solid var(--line); }
tbody tr + tr > * { border-top: 1px solid var(--line); }
.number { text-align: right; }
td.number { white-space: nowrap; }
.strong > * { background: var(--tint); font-weight: 700; }
.pictures {
  display: grid; gap: 1.5rem; margin: 1rem 0; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
}
figure { margin: 0; max-width: 36rem; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { font-size: .95rem; margin-top: .4rem; }
</style>
</head>
<body>
<header>
<h1>$title</h1>
$lead
</header>
<main>
$sections
</main>
<footer>$footer</footer>
</body>
</html>
"""
)
