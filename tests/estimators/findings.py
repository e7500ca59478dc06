"""What a fitted model found."""


def found(model):
    """Return what a fitted model found, except for the time that it took."""
    records = [{**record, "seconds": 0.0} for record in model.history_]
    learnt = (model.coef_.tobytes(), model.intercept_.tobytes(), model.certificate_)
    return repr((model.algorithm_, model.stop_reason_, learnt, records))  # nan too
