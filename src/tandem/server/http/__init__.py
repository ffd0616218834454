"""The JSON API: `POST /api/v1/<operation>`, its OpenAPI document, and the broker's health."""
