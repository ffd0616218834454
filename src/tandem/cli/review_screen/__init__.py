"""`tandem review` at a terminal: a screen with what waits for a person, the changes, the discussion and the verdict.

Only `application` and its imports need Textual; nothing of it is imported before the screen is opened.
"""
