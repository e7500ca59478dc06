"""The trained model: its file, its scaling, its predictions."""
