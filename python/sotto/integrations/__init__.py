"""sotto in other people's training loops. Each module imports the package that it is for: huggingface, lightning, accelerate."""
