"""Model files as the tests need them: saved and loaded, or changed as an attacker could."""

from corank import load
from corank.model_files.container import read_model, write_model


def round_trip(model, path, **options):
    model.save(path, **options)
    return load(path)


def rewritten(path, change):
    """The same file with its header or arrays changed and a checksum that is right: what an
    attacker can write.
    """
    header, arrays = read_model(path)
    header.pop("corank")
    change(header, arrays)
    write_model(path, header, arrays, overwrite=True)


def put(*keys_and_value):
    """A change of the header; None takes the entry out."""
    *keys, last, value = keys_and_value

    def change(header, arrays):
        place = header
        for key in keys:
            place = place[key]
        if value is None:
            del place[last]
        else:
            place[last] = value

    return change


def scale_array(name, function):
    """A change of an array."""

    def change(header, arrays):
        arrays[name] = function(arrays[name])

    return change
