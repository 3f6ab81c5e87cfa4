"""Sphinx's settings: python -m sphinx -W --keep-going -b html docs docs/_build/html."""

import re
import sys
from pathlib import Path
from typing import Any

import vicinal

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "benchmarks")]

project = "vicinal"
author = "The vicinal developers"
project_copyright = "The vicinal developers, BSD 3-clause licence"
version = release = vicinal.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "benchmark_tables",
    "command_help",
]
exclude_patterns = ["_build", "gallery"]
templates_path = ["_templates"]
default_role = "code"
smartquotes = False
highlight_language = "python3"

# --- reference ------------------------------------------------------------------------------------

autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
maximum_signature_line_length = 80
numpydoc_show_class_members = False  # the template lists them


def quote_names(*event: Any) -> None:
    """Turn the `(n_machines_,)` of a docstring's types into code: reST takes it for a link."""
    lines = event[-1]
    lines[:] = [re.sub(r"(\(|, )(\w+_)([,)])", r"\1`\2`\3", line) for line in lines]


def setup(app: Any) -> None:
    """Called by Sphinx; the number puts it before numpydoc."""
    app.connect("autodoc-process-docstring", quote_names, priority=400)


# --- gallery --------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": (),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
}

# --- pages ----------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "vicinal"
html_static_path = ["_static"]
html_css_files = ["vicinal.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {
    page: [] for page in ("index", "tutorial", "choosing", "scaling", "performance", "search")
}
html_theme_options = {
    "logo": {"text": "vicinal"},
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
