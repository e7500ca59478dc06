import pytest
from hypothesis import settings

settings.register_profile("t", deadline=None, derandomize=True)
settings.load_profile("t")


@pytest.fixture
def seed():
    return 0
