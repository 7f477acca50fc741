"""Rowhouse, a server that speaks the Azure Table Storage protocol, from Python."""
