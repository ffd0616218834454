"""How answers look: texts, tables and pages for a terminal, made of what their fields say of themselves."""
