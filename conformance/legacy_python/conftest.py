"""What all legacy clients share: the address of the account under test."""

import uuid

import pytest

from address import Address


@pytest.fixture(scope="session")
def address():
    return Address.from_environment()


@pytest.fixture
def key():
    """A key that no other case uses."""
    return uuid.uuid4().hex
