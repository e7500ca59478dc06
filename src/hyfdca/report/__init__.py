"""The report of a trained study, from the files of its result folder."""
