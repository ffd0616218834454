"""From a unified diff, or two texts, to what a template shows. Pure: no request, no broker."""
