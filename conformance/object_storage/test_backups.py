"""Repositories in object storage, through the program and against real servers."""

import os
import subprocess
import time
from datetime import datetime, timezone

from program import PROGRAM, Follower, back_up, environment, restore, run, succeed
from services import BUCKET

ENTITIES = 2000


def now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")


def verify(repository):
    return run(repository.service, "backup", "--verify", repository.address)


def test_a_backup_adds_what_has_changed_and_can_be_restored(repository, server, tmp_path):
    server.put(0, ENTITIES, 1)
    first = back_up(repository, server)
    before = server.state()
    assert first["new_chunks"] == first["chunks"] > 5
    server.put(100, 3, 2)
    second = back_up(repository, server)
    assert 0 < second["new_chunks"] < second["chunks"] / 2
    listed = succeed(repository.service, "backup", "--list", repository.address)
    assert [backup["backup"] for backup in listed] == [first["backup"], second["backup"]]
    code, output, _ = verify(repository)
    assert code == 0 and "2 backups" in output and "0 backups are damaged" in output
    assert restore(repository, tmp_path / "newest") == server.state()
    assert restore(repository, tmp_path / "first", "--backup", first["backup"]) == before
    # The names are the names of the files in a folder.
    names = repository.names()
    assert "rowhouse.repository" in names and f"backups/{first['backup']}.json" in names
    assert all(name.split("/")[1] == name.split("/")[2][:2] for name in repository.names("chunks/"))
    # The latest backup needs the chunks of earlier ones until most of their entities have changed.
    server.put(0, ENTITIES, 3)
    third = back_up(repository, server, "--keep", "1")
    assert third["removed_backups"] == 2 and third["removed_chunks"] > 0 and third["removed_bytes"] > 0
    assert len(repository.names("chunks/")) == third["chunks"]
    assert verify(repository)[0] == 0
    assert repository.names("locks/") == []


def test_a_followed_server_can_be_restored_to_any_time(repository, server, tmp_path):
    server.put(0, 300, 1)
    with Follower(repository, server) as follower:
        follower.wait_for_step(lambda step: "backup" in step)
        server.put(0, 50, 2)
        then, state = now(), server.state()
        server.put(0, 70, 3)
        step = follower.wait_until_covered(now())
    assert follower.code == 0
    assert restore(repository, tmp_path / "then", "--to", then) == state
    assert restore(repository, tmp_path / "last", "--to", step["next"] - 1) == server.state()
    # Each part without transactions replaced its predecessor.
    assert sum(name.split("-")[0].endswith(name.split("-")[1]) for name in repository.names("log/")) <= 1
    assert verify(repository)[0] == 0


def test_following_continues_after_an_outage(repository, server, tmp_path):
    server.put(0, 100, 1)
    with Follower(repository, server) as follower:
        follower.wait_for_step(lambda step: step.get("transactions") == 0)
        repository.service.proxy.disconnect()
        server.put(0, 100, 2)
        message = follower.wait_for_message("trying again every 1 s")
        assert "does not answer" in message
        server.put(0, 50, 3)
        repository.service.connect()
        follower.wait_for_message("following again")
        step = follower.wait_until_covered(now())
    assert restore(repository, tmp_path / "after", "--to", step["next"] - 1) == server.state()


def test_an_interrupted_backup_is_invisible_and_its_chunks_are_used(repository, server, tmp_path):
    server.put(0, ENTITIES, 1)
    # Halfway, nothing is forwarded any more.
    repository.service.proxy.bytes_left = ENTITIES * 1024 // 2
    command = [PROGRAM, "backup", "--data", server.data, "--to", repository.address, "--quiet"]
    process = subprocess.Popen(command, env=environment(repository.service))
    while repository.service.proxy.bytes_left >= 0:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    repository.service.proxy.disconnect()
    repository.service.connect()
    assert len(repository.names("chunks/")) > 0
    assert succeed(repository.service, "backup", "--list", repository.address) == []
    made = back_up(repository, server)
    assert 0 < made["new_chunks"] < made["chunks"]
    assert verify(repository)[0] == 0
    assert restore(repository, tmp_path / "restored") == server.state()
    # The lock of the killed process still counts, so nothing is removed, and its chunks are still there.
    assert len(repository.names("locks/")) == 1


def test_a_damaged_and_a_missing_chunk_are_found_and_repaired(repository, server, tmp_path):
    server.put(0, ENTITIES, 1)
    made = back_up(repository, server)
    name = repository.names("chunks/")[0]
    intact = repository.read(name)
    for damaged in [intact[:-1] + bytes([intact[-1] ^ 1]), b""]:
        repository.write(name, damaged)
        code, output, _ = verify(repository)
        assert code == 1 and f"{repository.address}/{name} is damaged" in output and made["backup"] in output
    code, _, messages = run(repository.service, "restore", "--from", repository.address, "--data", tmp_path / "damaged")
    assert code == 1 and f"{repository.address}/{name} is damaged" in messages
    repository.delete(name)
    code, output, _ = verify(repository)
    assert code == 1 and f"{repository.address}/{name} is missing" in output
    assert back_up(repository, server)["new_chunks"] == 1
    assert repository.read(name) == intact and verify(repository)[0] == 0


def test_large_objects_are_transferred_in_pieces(repository, server, tmp_path):
    back_up(repository, server)
    # Both transactions are in the same part, because the first one does not fill it.
    for partition in "ab":
        rows = [{"PartitionKey": partition, "RowKey": str(row), "Value": os.urandom(60 * 1024)} for row in range(48)]
        server.table.submit_transaction([("upsert", row) for row in rows])
    with Follower(repository, server) as follower:
        step = follower.wait_for_step(lambda step: step.get("transactions") == 2)
    [name] = [name for name in repository.names("log/") if name.endswith(step["part"])]
    assert len(repository.read(name)) > 5 * 1024 * 1024
    assert restore(repository, tmp_path / "restored", "--to", step["next"] - 1) == server.state()
    assert verify(repository)[0] == 0


def test_a_backup_waits_while_another_process_removes_old_ones(repository, server):
    back_up(repository, server)
    lock = f"locks/{'0a' * 16}.exclusive"
    repository.write(lock, b"")
    command = [PROGRAM, "backup", "--data", server.data, "--to", repository.address, "--quiet"]
    process = subprocess.Popen(command, env=environment(repository.service))
    time.sleep(3)
    assert process.poll() is None
    # Other backups, restores and verifications do not wait for it.
    assert verify(repository)[0] == 0
    repository.delete(lock)
    assert process.wait() == 0
    assert repository.names("locks/") == []


def test_errors_say_what_to_do(repository, server):
    service = repository.service

    def fail(address, **variables):
        code, output, messages = run(service, "backup", "--data", server.data, "--to", address, **variables)
        assert code == 1 and output == ""
        assert address in messages or "'gs://'" in messages
        for secret in service.variables.values():
            assert len(secret) < 20 or secret not in messages
        return messages

    assert service.missing in fail(f"{service.scheme}://no-such-place/backups")
    assert service.denied in fail(repository.address, **service.wrong_key)
    assert "connecting failed" in fail(repository.address, **service.unreachable)
    repository.write("notes", b"foreign")
    assert "not a backup repository: it contains objects" in fail(repository.address)
    code, _, messages = run(service, "restore", "--from", repository.address, "--data", server.data / "new")
    assert code == 1 and f"there is no backup repository at {repository.address}" in messages
    code, _, messages = run(service, "backup", "--data", server.data, "--to", f"gs://{BUCKET}/backups")
    assert code == 2 and "'gs://' is not supported" in messages
