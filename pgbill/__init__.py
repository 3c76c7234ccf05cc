"""Bill accounts from PostgreSQL: each once a period, whatever dies on the way.

The folder listing is the glossary: one module, one noun. Imports point down, from `cli`
to the runs (which alone commit), to the parts, to `db`, `config` and `errors`.
"""

__version__ = "0.1.0"
