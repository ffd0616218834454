"""Webhooks: events of the log, signed and posted to addresses that a person named."""
