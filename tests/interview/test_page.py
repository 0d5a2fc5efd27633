"""What the page shows of an item: fields in order, cells as people write them, pictures below the
folder of the table.
"""

from datetime import date, datetime

import pyarrow as pa
import pytest

from corank.interview.page import MAX_TEXT, SHOWN_FIELDS, Cards, cell_text
from corank.tables import TableError


def cards(columns, names=("a", "b"), **more):
    return Cards(pa.table({"name": list(names), **columns}), names, "name", **more)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (float("nan"), ""),
        ("  ", ""),
        ("n/a", ""),
        (True, "yes"),
        (2019, "2019"),
        (1234567, "1,234,567"),
        (-12345, "-12,345"),
        (3.14159265, "3.142"),
        (1234567.8, "1,234,568"),
        (1e-9, "1e-09"),
        (date(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, 4, 5), "2020-01-02 03:04"),
        (datetime(2020, 1, 2), "2020-01-02"),
        (" <b>bold</b> ", "<b>bold</b>"),
    ],
)
def test_a_cell_is_written_as_people_write_it(value, text):
    assert cell_text(value) == text


def test_long_cells_are_cut():
    assert cell_text("x" * 10_000) == "x" * MAX_TEXT + " …"


def test_empty_cells_are_left_out_and_long_texts_come_last():
    story = "once upon a time " * 10
    shown = cards({"story": [story, "short"], "price": [3, None], "number_of_pages": [7, 8]})
    assert [name for name, _, _ in shown.card(0)["fields"]] == ["price", "number of pages", "story"]
    assert [name for name, _, _ in shown.card(1)["fields"]] == ["number of pages", "story"]
    assert [is_long for _, _, is_long in shown.card(0)["fields"]] == [False, False, True]
    assert shown.card(0)["title"] == "a"


def test_what_nobody_can_read_is_not_shown():
    shown = cards(
        {"Unnamed: 0": [1, 2], "vector": [[1.0], [2.0]], "bytes": [b"1", b"2"], "price": [1, 2]}
    )
    assert [name for name, _, _ in shown.card(0)["fields"]] == ["price"]


def test_most_fields_of_a_wide_table_are_folded():
    card = cards({f"x{number}": [number, number] for number in range(300)}).card(0)
    assert len(card["fields"]) == SHOWN_FIELDS
    assert 0 < len(card["more"]) < 300


def test_columns_are_chosen_in_order():
    columns = {"price": [1, 2], "size": [3, 4], "age": [5, 6]}
    assert cards(columns, show=["age", "price"]).card(0)["fields"] == [
        ("age", "5", False),
        ("price", "1", False),
    ]
    with pytest.raises(TableError, match="colour"):
        cards(columns, show=["colour"])


def test_pictures_are_addresses_and_files_below_the_folder(tmp_path):
    folder = tmp_path / "table"
    (folder / "inner").mkdir(parents=True)
    for path in (
        folder / "inner" / "a.PNG",
        tmp_path / "secret.png",
        folder / "notes.txt",
        folder / "drawing.svg",
    ):
        path.write_bytes(b"picture")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "renamed.png").symlink_to(folder / "notes.txt")
    (folder / "folder.png").mkdir()
    bad = [
        "../secret.png",
        str(tmp_path / "secret.png"),
        "link.png",
        "renamed.png",
        "notes.txt",
        "drawing.svg",
    ]
    bad += [
        "folder.png",
        "none.png",
        "nul\0.png",
        "x" * 5000 + ".png",
        "javascript:alert(1).png",
        "//host/x.png",
    ]
    good = ["inner/a.PNG", "https://example.org/a.jpg?size=2", "http://example.org/A.GIF"]
    names = [str(number) for number in range(len(bad + good))]
    shown = cards({"picture": bad + good}, names, folder=folder)
    sources = [shown.card(row)["pictures"] for row in range(len(names))]
    assert sources[: len(bad)] == [[]] * len(bad)
    assert sources[len(bad) :] == [[f"picture/{len(bad)}/0"], [good[1]], [good[2]]]
    assert shown.picture(len(bad), 0) == folder / "inner" / "a.PNG"
    assert [shown.picture(row, at) for row, at in ((-1, 0), (0, -1), (0, 1), (99, 0))] == [None] * 4
    assert shown.has_remote_pictures
    assert not cards({"picture": ["a.png", "b.png"]}, folder=folder).has_remote_pictures


def test_without_a_folder_no_file_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").write_bytes(b"picture")
    assert cards({"picture": ["a.png", "a.png"]}).card(0)["pictures"] == []
