"""What clients call beside answers of models: embeddings, images, speech, files, and so on."""
