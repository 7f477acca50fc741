"""Fixtures that all legacy clients share: the URL of the account under test."""

import uuid

import pytest

from address import Address


@pytest.fixture(scope="session")
def address():
    return Address.from_environment()


@pytest.fixture
def key():
    """Returns a key that no other case uses."""
    return uuid.uuid4().hex
