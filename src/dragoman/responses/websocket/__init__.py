"""Responses over WebSocket: each `response.create` is served as `POST /v1/responses` is."""
