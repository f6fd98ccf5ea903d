"""Realtime passed through: sessions over WebSocket, client secrets, and calls of WebRTC."""
