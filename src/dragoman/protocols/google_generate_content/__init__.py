"""Google's generateContent: `POST /v1/models/{model}:generateContent`."""
