"""Finding who handed in what, in folders, nbgrader's tree and zips of learning platforms."""

import io
import json
import os
import pickle
import struct
import zipfile
from datetime import UTC, datetime

import pytest
from mutated import code

from attnlib.homework import collect as module
from attnlib.homework.collect import CollectError, clean, collect, unique_names


@pytest.fixture
def data(answered):
    return json.dumps(answered).encode()


OTHER = json.dumps({"cells": [code("x = 1")], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()


def zipped(entries, **links):
    """A zip of a dict of names and bytes; an entry may be (bytes, date)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            content, date = content if isinstance(content, tuple) else (content, (2025, 1, 1, 0, 0, 0))
            archive.writestr(zipfile.ZipInfo(name, date), content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def laid(folder, entries):
    for name, content in entries.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def students(found):
    return [each.student for each in found.submissions]


def test_a_folder_of_notebooks(tmp_path, small, data):
    laid(
        tmp_path,
        {
            "ann.ipynb": data,
            "hw1_bob.ipynb": data,
            "cem-hw1.ipynb": data,
            "notes.pdf": b"%PDF-1.4",
            "README.md": b"Read me.",
            "marks.csv": b"a,b",
            ".DS_Store": b"x",
            ".ipynb_checkpoints/ann.ipynb": data,
            "renamed.json": data,
            "dora.ipynb.txt": data,
        },
    )
    found = collect(tmp_path, small)
    assert students(found) == ["ann", "bob", "cem", "dora", "renamed"]
    assert found.submissions[0].read() == data and found.submissions[0].handed_in is None
    assert sorted(found.left_out) == [
        ("README.md", "is no notebook"),
        ("marks.csv", "is no notebook"),
        ("notes.pdf", "is no notebook"),
    ]


def test_other_json_is_nobodys_notebook(tmp_path, small, data):
    laid(tmp_path, {"ann.ipynb": data, "class.json": b'{"seed": 1}'})
    found = collect(tmp_path, small)
    assert students(found) == ["ann"] and found.left_out == (("class.json", "is no notebook"),)


def test_one_notebook(tmp_path, small, data):
    laid(tmp_path, {"ann.ipynb": data})
    assert students(collect(tmp_path / "ann.ipynb", small)) == ["ann"]


def test_nbgraders_tree(tmp_path, small, data):
    laid(
        tmp_path / "course",
        {
            "ann/hw1/hw1.ipynb": data,
            "ann/hw1/timestamp.txt": b"2025-02-02 15:58:23.948203 UTC",
            "ann/hw2/hw2.ipynb": OTHER,
            "bob/hw1/my answers.ipynb": data,
            "bob/hw1/picture.png": b"\x89PNG",
            "cem/hw1/essay.docx": b"PK\x03\x04 no zip",
            "stray.ipynb": OTHER,
            "bob/hw1/timestamp.txt": b"no time at all",
        },
    )
    for where in (tmp_path / "course", tmp_path):
        found = collect(where, small)
        assert students(found) == ["ann", "bob", "cem"]
        ann, bob, cem = found.submissions
        assert ann.handed_in == datetime(2025, 2, 2, 15, 58, 23, 948203, UTC) and bob.handed_in is None
        assert "essay.docx is no notebook" in cem.unreadable and cem.source == ()
        assert any(place.endswith("stray.ipynb") for place, _ in found.left_out)
        assert not any("hw2" in place for place, _ in found.left_out)


def test_moodles_zip(tmp_path, small, data):
    (tmp_path / "m.zip").write_bytes(
        zipped(
            {
                "Ada Lovelace_1234_assignsubmission_file_/hw1.ipynb": data,
                "Zoë Ünal_77_assignsubmission_file_/deep/er/x.ipynb": data,
                "Bo Li_5_assignsubmission_file_/work.zip": zipped({"a/hw1.ipynb": data, "a/data.csv": b"1"}),
                "Cy Lo_6_assignsubmission_file_hw1.ipynb": data,
                "Di Mo_7_assignsubmission_file_/report.pdf": b"%PDF",
                "Di Mo_7_assignsubmission_onlinetext_/onlinetext.html": b"<p>Sorry.</p>",
                "__MACOSX/._hw1.ipynb": b"junk",
            }
        )
    )
    found = collect(tmp_path / "m.zip", small)
    assert students(found) == ["Ada-Lovelace_1234", "Bo-Li_5", "Cy-Lo_6", "Di-Mo_7", "Zoë-Ünal_77"]
    assert [bool(each.unreadable) for each in found.submissions] == [False, False, False, True, False]
    assert all(each.read() == data for each in found.submissions if not each.unreadable)
    assert "report.pdf is no notebook" in found.submissions[3].unreadable
    assert pickle.loads(pickle.dumps(found.submissions[1])).read() == data


def test_canvas_zip(tmp_path, small, data):
    (tmp_path / "c.zip").write_bytes(
        zipped(
            {
                "lovelaceada_123_456_hw1.ipynb": b"old",
                "lovelaceada_123_457_hw1-1.ipynb": data,
                "lovelaceada_123_458_hw1-2.ipynb": data + b" ",
                "liubo_LATE_99_1_hw1.ipynb": data,
                "two_words_98_2_my_hw1_2026_11_30.ipynb": data,
            }
        )
    )
    found = collect(tmp_path / "c.zip", small)
    assert students(found) == ["liubo_99", "lovelaceada_123", "two_words_98"]
    assert [each.late for each in found.submissions] == [True, False, False]
    ada = found.submissions[1]
    assert ada.read() == data + b" " and any(
        "hw1-2.ipynb counts, which is newer" in note for note in ada.notes
    )
    assert len(ada.notes) == 2 and len(found.left_out) == 2


def test_the_file_that_fits_counts_then_the_newest(tmp_path, small, data):
    laid(
        tmp_path,
        {"ann/hw1.ipynb": data, "ann/hw2.ipynb": OTHER, "bob/old.ipynb": data, "bob/new.ipynb": data},
    )
    os.utime(tmp_path / "ann/hw1.ipynb", (1, 1))
    os.utime(tmp_path / "bob/old.ipynb", (1, 1))
    ann, bob = collect(tmp_path, small).submissions
    assert ann.place == "ann/hw1.ipynb" and "which fits the assignment" in ann.notes[0]
    assert bob.place == "bob/new.ipynb" and "which is newer" in bob.notes[0]
    # Of an archive's entries the dates are their own.
    (tmp_path / "z.zip").write_bytes(
        zipped(
            {
                "cem/b.ipynb": (data, (2024, 1, 1, 0, 0, 0)),
                "cem/a.ipynb": (data, (2025, 1, 1, 0, 0, 0)),
                "dora/a.ipynb": data,
            }
        )
    )
    assert collect(tmp_path / "z.zip", small).submissions[0].place == "cem/a.ipynb"


def test_a_second_download_is_the_same_student(tmp_path, small, data):
    laid(tmp_path, {"ann.ipynb": OTHER, "ann (1).ipynb": data, "ann (2).ipynb": data})
    (ann,) = collect(tmp_path, small).submissions
    assert ann.place == "ann (2).ipynb" and len(ann.notes) == 2


def test_unreadable_notebooks_are_kept(tmp_path, small, data):
    """The grader names them; here nobody may get lost."""
    laid(
        tmp_path,
        {
            "ann.ipynb": b"",
            "bob.ipynb": b"\0\0",
            "cem.ipynb": data[:-100],
            "dora.zip": b"PK\x03\x04broken",
            "eli.ipynb": zipped({"x/hw1.ipynb": data}),
        },
    )
    found = collect(tmp_path, small)
    assert students(found) == ["ann", "bob", "cem", "dora", "eli"]
    assert "cannot be read" in found.submissions[3].unreadable
    assert found.submissions[4].read() == data


def test_a_classs_folder_means_what_was_submitted(tmp_path, small, data):
    laid(
        tmp_path,
        {
            "class.json": b"{}",
            "source/hw1/hw1.ipynb": data,
            "release/hw1/hw1.ipynb": data,
            "submitted/ann/hw1/hw1.ipynb": data,
            "submitted/bob/hw1.ipynb": data,
            "submitted/cem/hw1.zip": zipped({"hw1/hw1.ipynb": data}),
            "submitted/dora/hw2/hw2.ipynb": OTHER,
        },
    )
    assert students(collect(tmp_path, small)) == ["ann", "bob", "cem"]


@pytest.mark.parametrize("wrap", ["", "submissions/", "a/b/"])
def test_folders_around_all_are_nobodys(tmp_path, small, data, wrap):
    (tmp_path / "z.zip").write_bytes(zipped({f"{wrap}ann.ipynb": data, f"{wrap}bob.ipynb": data}))
    assert students(collect(tmp_path / "z.zip", small)) == ["ann", "bob"]
    (tmp_path / "z.zip").write_bytes(zipped({f"{wrap}ann/hw1.ipynb": data, f"{wrap}bob/hw1.ipynb": data}))
    assert students(collect(tmp_path / "z.zip", small)) == ["ann", "bob"]


def test_a_single_students_folder(tmp_path, small, data):
    laid(tmp_path, {"ann/hw1.ipynb": data})
    assert students(collect(tmp_path, small)) == ["ann"]


@pytest.mark.parametrize("wrap", ["", "Homework1_2026_11_30/", "course_2026_1_export/submitted/"])
@pytest.mark.parametrize("files", [
    ["ann/hw1/hw1_2026_11_30.ipynb", "bob/hw1/hw1_2026_11_30.ipynb"],
    ["ann/hw1_2026_11_30.ipynb", "bob/hw1_2026_11_30.ipynb"],
    ["ann_2026_11_30.ipynb", "bob_2026_11_30.ipynb"],
    ["ann/hw1.ipynb", "bob/hw1_5_6_x.ipynb"],
])  # fmt: skip
def test_a_date_is_no_student(tmp_path, small, data, wrap, files):
    laid(tmp_path, {wrap + file: data for file in files})
    assert students(collect(tmp_path, small)) == ["ann", "bob"]


def test_of_dated_files_the_latest_counts(tmp_path, small, data):
    laid(tmp_path, {"ann_2026_11_30.ipynb": data, "ann_2026_11_29.ipynb": data, "bob.ipynb": data})
    assert collect(tmp_path, small).submissions[0].place == "ann_2026_11_30.ipynb"


def test_a_download_of_each_section(tmp_path, small, data):
    sections = {"a": "Ada Lo_1_assignsubmission_file_/hw1.ipynb", "b": "liubo_99_123_hw1.ipynb"}
    for section, name in sections.items():
        (tmp_path / f"section {section}.zip").write_bytes(zipped({name: data}))
    assert students(collect(tmp_path, small)) == ["Ada-Lo_1", "liubo_99"]


# ---------------------------------------------------------------------------------------- hostile


@pytest.mark.parametrize(("layout", "victim"), [
    ("{}/hw1/hw1.ipynb", "student_101"), ("{}/hw1.ipynb", "student_101"),
    ("{}_assignsubmission_file_/hw1.ipynb", "student_101"), ("{}_77_hw1.ipynb", "student_101"),
    ("{}.ipynb", "student_101"),
])  # fmt: skip
@pytest.mark.parametrize("name", [
    "student_101_5_hw1.ipynb", "student_101_assignsubmission_file_hw1.ipynb", "student_101/hw1/hw1.ipynb",
    "student_101_assignsubmission_file_/hw1.ipynb", "../student_101/hw1.ipynb",
])  # fmt: skip
def test_no_name_takes_anothers_place(tmp_path, small, data, layout, victim, name):
    """Neither in the folder of a student nor in an archive that was handed in."""
    mine = layout.format("student_102")
    handed_in = {
        layout.format(victim): data,
        layout.format("student_103"): data,
        **({mine.rpartition("/")[0] + "/" + name: OTHER} if "/" in mine and ".." not in name else
           {mine.replace(".ipynb", ".zip"): zipped({name: OTHER})}),
    }  # fmt: skip
    laid(tmp_path, handed_in)
    found = collect(tmp_path, small)
    assert students(found) == ["student_101", "student_102", "student_103"]
    assert found.submissions[0].read() == data


# ------------------------------------------------------------------------------------ broken or much


def test_names_lead_nowhere(tmp_path, small, data):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "z.zip").write_bytes(
        zipped(
            {
                "../../evil.ipynb": data,
                "/etc/passwd.ipynb": data,
                "..\\..\\win.ipynb": data,
                "C:\\x\\drive.ipynb": data,
                "=cmd|' calc'!A0.ipynb": data,
                "-rf.ipynb": data,
                "a\nb.ipynb": data,
                "x" * 300 + ".ipynb": data,
                "..ipynb": data,
                "😀.ipynb": data,
            }
        )
    )
    before = sorted(tmp_path.rglob("*"))
    found = collect(tmp_path / "in" / "z.zip", small)
    assert sorted(tmp_path.rglob("*")) == before
    assert len(found.submissions) == 10
    for name in students(found):
        assert name == clean(name) and name[0].isalnum() and len(name.encode()) < 100
        assert not {"/", "\\", "\n", "="} & set(name)
    assert len(set(map(str.casefold, students(found)))) == 10


def test_links_and_pipes_are_refused(tmp_path, small, data):
    secret = tmp_path / "secret.ipynb"
    secret.write_bytes(data)
    laid(tmp_path / "in", {"ann.ipynb": data})
    (tmp_path / "in" / "bob.ipynb").symlink_to(secret)
    (tmp_path / "in" / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "in" / "cem.ipynb")
    link = zipfile.ZipInfo("dora.ipynb")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "in" / "eli.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("hw1.ipynb", data)
    found = collect(tmp_path / "in", small)
    assert students(found) == ["ann", "eli"]
    assert sorted(place for place, _ in found.left_out) == [
        "bob.ipynb",
        "cem.ipynb",
        "eli.zip/dora.ipynb",
        "folder",
    ]
    # A link that has come in a file's place after it was found is not followed either.
    (tmp_path / "in" / "ann.ipynb").unlink()
    (tmp_path / "in" / "ann.ipynb").symlink_to(secret)
    with pytest.raises(OSError):
        found.submissions[0].read()


def test_bombs_are_not_unpacked(tmp_path, small, data, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 3_000_000)
    bomb = zipped({"hw1.ipynb": b"{" + b" " * 30_000_000})
    inner = data
    for _ in range(6):
        inner = zipped({"hw1.zip" if inner is not data else "hw1.ipynb": inner})
    liar = bytearray(bomb)  # says that it holds little
    place = liar.rindex(b"PK\x01\x02")
    liar[place + 24 : place + 28] = struct.pack("<I", 100)
    laid(
        tmp_path,
        {
            "ann/bomb.zip": bomb,
            "bob/deep.zip": inner,
            "cem/liar.zip": bytes(liar),
            "dora/hw1.ipynb": data,
            "eli/wide.zip": zipped({"a.zip": b"PK\x03\x04" + b"0" * 9_000_000}),
        },
    )
    found = collect(tmp_path, small)
    assert students(found) == ["ann", "bob", "cem", "dora", "eli"]
    ann, bob, cem, dora, eli = found.submissions
    with pytest.raises(OSError, match="3 MB"):
        ann.read()
    assert "archive in an archive" in bob.unreadable and "more than anybody" in eli.unreadable
    try:
        assert len(cem.read()) <= 3_000_000
    except OSError:
        pass
    assert dora.read() == data


def test_a_zip_of_too_many_files(tmp_path, small, data, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 20)
    (tmp_path / "z.zip").write_bytes(zipped({f"s{i:03}.ipynb": data for i in range(50)}))
    found = collect(tmp_path / "z.zip", small)
    assert len(found.submissions) == 20 and "more than 20 files" in found.left_out[0][1]


def test_encrypted_and_damaged_entries_are_named(tmp_path, small, data):
    file = bytearray(zipped({"ann/hw1.ipynb": data, "bob/hw1.ipynb": data}))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        file[file.index(mark) + offset] |= 1
    (tmp_path / "z.zip").write_bytes(file)
    ann, bob = collect(tmp_path / "z.zip", small).submissions
    assert "encrypted" in ann.unreadable and bob.read() == data
    file = bytearray(zipped({"ann.ipynb": data}))
    file[200:260] = bytes(60)
    (tmp_path / "z.zip").write_bytes(file)
    try:
        (ann,) = collect(tmp_path / "z.zip", small).submissions
        assert ann.unreadable or pytest.raises(OSError, ann.read)
    except CollectError as error:
        assert "ann.ipynb" in str(error)


@pytest.mark.parametrize("content", [None, {}, {"notes.txt": b"x"}])
def test_nothing_there_is_an_error(tmp_path, small, content):
    if content is not None:
        laid(tmp_path, content)
    with pytest.raises(CollectError) as raised:
        collect(tmp_path if content is not None else tmp_path / "nowhere", small)
    assert "\n" not in str(raised.value)


def test_names_stay_apart():
    names = unique_names(["ann", "Ann", "a n n", "a-n-n", "a/n/n", "", "..", "Zoë", "Zoe\u0308"])
    assert len({name.casefold() for name in names.values()}) == 9
    assert names["a-n-n"] == "a-n-n" and names["Zoë"] == "Zoë"
    assert names == unique_names(reversed(list(names)))
