"""The file format: what `corank.model_files.container` promises."""

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from corank.model_files import container
from corank.model_files.container import FORMAT_VERSION, ModelFileError, read_model, write_model
from corank.tables import replacing

TABLE = np.arange(24.0).reshape(4, 6)
ARRAYS = {
    "plain": TABLE,
    "transposed": TABLE.T,
    "strided": TABLE[::2, ::3],
    "reversed": TABLE[::-1],
    "by_columns": np.asfortranarray(TABLE),
    "big_endian": TABLE.astype(">f8"),
    "single": TABLE.astype(np.float32),
    "whole": np.arange(3),
    "small": np.arange(3, dtype=np.int32),
    "flags": np.array([True, False]),
    "empty": np.zeros((0, 3)),
    "number": np.array(2.5),
}
HEADER = {
    "learner": "RLS",
    "words": "Grüße \udc80 \n",
    "list": [1, 0.1, None, True],
    "nested": {"a": {}},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.corank"
    write_model(path, HEADER, ARRAYS)
    return path


def raw(about, arrays=None, **metadata):
    """A safetensors file with any text as its header, and the checksum that goes with it."""
    text = about if isinstance(about, str) else json.dumps(about)
    arrays = arrays or {}
    return save(arrays, {"corank": text, "sha256": container.checksum(text, arrays), **metadata})


def test_header_and_arrays_come_back_as_they_were(file):
    header, arrays = read_model(file)
    assert header == {**HEADER, "corank": header["corank"]}
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert arrays[name].dtype == array.dtype.newbyteorder("="), name


def test_arrays_can_be_written_to_and_do_not_depend_on_the_file(file):
    _, arrays = read_model(file)
    file.unlink()
    arrays["plain"][0, 0] = 7
    assert arrays["plain"].sum() == TABLE.sum() + 7


def test_the_header_says_who_wrote_it(file):
    content = file.read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    about = json.loads(metadata["corank"])
    assert (about["format"], about["version"]) == ("corank", FORMAT_VERSION)
    assert isinstance(about["corank"], str)
    assert len(metadata["sha256"]) == 64


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_noticed_wherever_it_is(file, tmp_path, flip):
    content, damaged = file.read_bytes(), tmp_path / "damaged"
    for at in range(0, len(content), 3):
        changed = bytearray(content)
        changed[at] ^= flip
        damaged.write_bytes(changed)
        with pytest.raises(ModelFileError):
            read_model(damaged)


def test_a_file_cut_off_anywhere_is_noticed(file, tmp_path):
    content, part = file.read_bytes(), tmp_path / "part"
    for length in [*range(0, len(content), 13), len(content) - 1]:
        part.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match="cut off"):
            read_model(part)
    part.write_bytes(content + b"\0")
    with pytest.raises(ModelFileError):
        read_model(part)


ABOUT = {"format": "corank", "version": 1, "corank": "0.1.0", "header": {}}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "damaged or cut off"),
        (b"PK\x03\x04 a zip file", "not a model file"),
        (b"\x80\x04\x95 a pickle.", "not a model file"),
        (b"\xff" * 64, "not a model file"),
        ((2**40).to_bytes(8, "little") + b"{}", "not a model file"),
        (save({"a": TABLE}), "not a corank model"),
        (save({"a": TABLE}, {"format": "pt"}), "not a corank model"),
        (raw("{"), "not JSON"),
        (raw("[" * 100_000), "not JSON"),
        (raw('{"a": ' + "9" * 10_000 + "}"), "not JSON"),
        (raw([]), "which format"),
        (raw("null"), "which format"),
        (raw({**ABOUT, "format": "other"}), "which format"),
        (raw({**ABOUT, "version": "1"}), "which format"),
        (raw({**ABOUT, "version": True}), "which format"),
        (raw({**ABOUT, "version": 0}), "incomplete"),
        (raw({**ABOUT, "version": FORMAT_VERSION + 1}), "newer corank"),
        (raw({**ABOUT, "header": []}), "incomplete"),
        (raw({**ABOUT, "corank": 3}), "incomplete"),
        (raw(ABOUT, {"a": np.zeros(3, dtype=np.float16)}), "unknown type"),
        (raw(ABOUT, {"a": np.zeros(3)}, sha256="0" * 64), "altered"),
        (raw(ABOUT, {"a": np.zeros(3)}, sha256=""), "altered"),
    ],
)
def test_what_is_not_a_model_file_is_refused_in_one_sentence(tmp_path, content, what):
    path = tmp_path / "odd.corank"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=what) as caught:
        read_model(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F64", "shape": [2**62], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 2**60]},
        {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": "1", "data_offsets": [0, 8]},
        {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 8]},
    ],
)
def test_sizes_that_lie_are_refused_before_memory_is_taken(tmp_path, entry):
    header = json.dumps(
        {"__metadata__": {"corank": json.dumps(ABOUT), "sha256": ""}, "a": entry}
    ).encode()
    path = tmp_path / "odd.corank"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ModelFileError):
        read_model(path)


def test_a_file_that_is_not_there_is_an_error_that_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.corank"):
        read_model(tmp_path / "nothing.corank")
    with pytest.raises(IsADirectoryError, match="is a folder, not a model file"):
        read_model(tmp_path)
    with pytest.raises(ModelFileError, match="is not a file"):
        read_model("/dev/null")


def test_nothing_is_overwritten_unasked(file):
    before = file.read_bytes()
    with pytest.raises(FileExistsError, match="already exists"):
        write_model(file, {}, {})
    assert file.read_bytes() == before
    write_model(file, {}, {}, overwrite=True)
    assert read_model(file)[1] == {}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(file, monkeypatch):
    before = file.read_bytes()

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_model(file, {}, ARRAYS, overwrite=True)
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "array", [np.zeros(2, dtype=complex), np.array(["a"]), np.array([object()])]
)
def test_arrays_of_other_types_are_refused_before_anything_is_written(tmp_path, array):
    with pytest.raises(TypeError, match="'odd'"):
        write_model(tmp_path / "a.corank", {}, {"odd": array})
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_is_not_json_is_refused_before_anything_is_written(tmp_path):
    for header in ({"a": object()}, {"a": float("nan")}):
        with pytest.raises((TypeError, ValueError)):
            write_model(tmp_path / "a.corank", header, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("as_root", [os.geteuid() == 0 if hasattr(os, "geteuid") else False])
def test_a_folder_without_permission_is_named(tmp_path, monkeypatch, as_root):
    if as_root:  # root may write anywhere
        usual = Path.open

        def refuse(self, *args, **kwargs):
            if self.parent != tmp_path:  # others may look up versions meanwhile
                return usual(self, *args, **kwargs)
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "open", refuse)
    else:
        tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="no permission in the folder"):
        write_model(tmp_path / "a.corank", {}, {})


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o604, 0o400])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "model.corank"
    write_model(path, {"number": 1}, {})
    path.chmod(mode)
    write_model(path, {"number": 2}, {}, overwrite=True)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert read_model(path)[0]["number"] == 2


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_a_new_file_is_as_open_as_the_umask_says_unless_it_is_private(tmp_path, private, mode):
    before = os.umask(0o022)
    try:
        write_model(tmp_path / "model.corank", {}, {}, private=private)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model.corank").stat().st_mode) == mode


def test_no_one_else_can_read_a_private_file_while_it_is_written(tmp_path):
    with replacing(tmp_path / "rows", overwrite=False, private=True) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
