"""The commands: each reads its options, calls the library, and shows what came out."""
