"""The one error that a user gets to see, where nothing heavy is imported."""


class StudyError(ValueError):
    """A study that cannot be run; the message is one plain sentence."""
