"""The public contract: every operation, declared once, with its request, answer, roles and hints."""
