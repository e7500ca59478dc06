"""Messages, their bytes, and who may say what when; never an algorithm."""
