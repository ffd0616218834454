"""The store: tables, statements and units of work on SQLite and PostgreSQL."""
