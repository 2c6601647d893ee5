"""Who handed in what: a folder of notebooks, nbgrader's submitted/ tree, or a learning platform's zip.

Nothing is ever extracted: an entry of an archive is read where it lies, up to a limit, and its name serves
for nothing but finding the student.
"""

import contextlib
import hashlib
import io
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from attnlib.homework import submission
from attnlib.homework.classes import many, moment

MOST_BYTES = submission.LARGEST  # of one file
MOST_FILES = 50_000  # in one archive or folder
MOST_UNPACKED = 4_000_000_000  # bytes that one source may unpack to while it is looked through
DEPTH = 3  # archives in archives

_MOODLE = re.compile(r"(?s)(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)")
_CANVAS = re.compile(
    r"(?s)(?P<name>[^_]+(?:_[^_\d][^_]*)*?)(?P<late>_LATE)?_(?P<id>\d+)_(?P<sub>\d+)_(?P<file>.+)"
)
_DATE = re.compile(r"[-_ .]*((?:19|20)\d\d)[-_.]?([01]?\d)[-_.]([0-3]?\d)(?!\d)")
_ATTEMPT = re.compile(r"(?:-(?P<canvas>\d{1,3})|\s?\((?P<copy>\d{1,3})\))$")
_IGNORED = {
    "__macosx",
    ".ipynb_checkpoints",
    ".git",
    ".ds_store",
    "thumbs.db",
    "desktop.ini",
    "timestamp.txt",
}


class CollectError(ValueError):
    """There is nothing to collect; the message says what was looked at."""


@dataclass(frozen=True)
class Submission:
    """What one student handed in; picklable, and holds no bytes.

    Attributes
    ----------
    student : str
        Clean: serves as a file's name.
    place : str
        Where it was found, for a reader.
    source : tuple
        A path, and the entries of archives in archives that lead to it. Empty where there is no file.
    handed_in : datetime or None
    late : bool
        Whether the platform marks it as late.
    notes : tuple of str
    unreadable : str
        Why there is nothing to read; empty where there is.
    """

    student: str
    place: str
    source: tuple = ()
    handed_in: datetime | None = None
    late: bool = False
    notes: tuple[str, ...] = ()
    unreadable: str = ""

    def read(self):
        """The bytes of the file.

        Raises
        ------
        OSError
            If it is no longer there or cannot be read.
        """
        return _bytes(self.source)


@dataclass(frozen=True)
class Collection:
    """All that was found: submissions by student, and (place, reason) of each file that was left out."""

    submissions: tuple[Submission, ...]
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _File:
    """A file on its way to a student."""

    parts: tuple  # of its path; an archive counts as a folder
    source: tuple
    size: int
    time: datetime | None = None
    identity: str = ""  # the student, as the platform calls him or her
    late: bool = False
    attempt: int = 0

    @property
    def place(self):
        return "/".join(self.parts)


def collect(path, assignment):
    """Find the submissions to an assignment.

    Parameters
    ----------
    path : path
        A folder, a zip, or one notebook.
    assignment : Assignment
        Tells which of a student's files is meant.

    Returns
    -------
    Collection

    Raises
    ------
    CollectError
        If nothing is there.
    """
    path = Path(path)
    if not path.exists():
        raise CollectError(f"{path} does not exist.")
    finder = _Finder(assignment)
    if path.is_dir():
        of_a_class = (path / "class.json").is_file() and (path / "submitted").is_dir()
        finder.folder(path / "submitted" if of_a_class else path)
    elif _begins_as_zip(path):
        finder.archive((path.stem,), (str(path),), 1, top=True)
    else:
        finder.add(_File((path.name,), (str(path),), path.stat().st_size))
    found = finder.collection()
    if not found.submissions:
        looked = ""
        if found.left_out:
            left_out = many(len(found.left_out), "file")
            looked = f" Left out: {left_out}, the first: {' '.join(found.left_out[0])}."
        raise CollectError(f"{path} holds no submission to {assignment.id}.{looked}")
    return found


class _Finder:
    def __init__(self, assignment):
        self.assignment, self.files, self.left_out, self.times = assignment, [], [], {}
        self.unpacked, self.count, self.level = 0, 0, None

    # ------------------------------------------------------------------------ what there is

    def folder(self, top):
        waiting = [(Path(top), ())]
        while waiting:
            folder, parts = waiting.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                self.leave_out((*parts, ""), f"the folder cannot be read ({error.strerror})")
                continue
            for entry in entries:
                below = (*parts, _shown(entry.name))
                if _ignored(entry.name) and entry.name != "timestamp.txt":
                    continue
                status = entry.stat(follow_symlinks=False)
                if entry.is_symlink():
                    self.leave_out(below, "is a link, and links are not followed")
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append((Path(entry.path), below))
                elif not stat.S_ISREG(status.st_mode):
                    self.leave_out(below, "is no file")
                elif self.another():
                    self.add(_File(below, (entry.path,), status.st_size))

    def archive(self, parts, source, depth, top=False):
        """The entries of a zip; ``source`` leads to it."""
        try:
            with _opened(source) as file, zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
        except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError, zlib.error) as error:
            reason = f"is a zip that cannot be read ({_words(error)})"
            if top:
                raise CollectError(f"{source[0]} {reason}.") from None
            self.add(_File(parts, (), 0), unreadable=reason)
            return
        for entry in entries:
            names = [part for part in re.split(r"[/\\]", entry.filename) if part not in ("", ".", "..")]
            if entry.is_dir() or not names or any(map(_ignored, names[:-1])):
                continue
            below = (*(() if top else parts), *map(_shown, names))
            if _ignored(names[-1]) and names[-1] != "timestamp.txt":
                continue
            if stat.S_ISLNK(entry.external_attr >> 16):
                self.leave_out(below, "is a link, and links are not followed")
                continue
            if not self.another():
                return
            self.add(_File(below, (*source, entry.filename), entry.file_size), depth=depth)

    def another(self):
        self.count += 1
        if self.count == MOST_FILES + 1:
            self.leave_out(("...",), f"more than {MOST_FILES} files: what comes after them was not looked at")
        return self.count <= MOST_FILES

    def leave_out(self, parts, reason):
        self.left_out.append(("/".join(parts), reason))

    # ------------------------------------------------------------------------ what it is

    def add(self, file, depth=0, unreadable=""):
        name = file.parts[-1].lower()
        if name == "timestamp.txt":
            self._timestamp(file)
            return
        if not unreadable:
            try:
                head = _bytes(file.source, 64) if file.size else b""
            except OSError as error:
                unreadable = f"cannot be read ({_words(error)})"
                head = b""
            if head.startswith(b"PK\x03\x04") and name.endswith((".zip", ".ipynb")):
                self._inner(file, depth)
                return
            if not unreadable and not name.endswith(".ipynb") and not _like_json(head):
                unreadable = "is no notebook"
        self.files.append((file, unreadable))

    def _inner(self, file, depth):
        if depth >= DEPTH:
            self.files.append((file, "is an archive in an archive in an archive, which is not opened"))
            return
        if len(file.source) > 1:  # it is unpacked once here and once for each of its files
            self.unpacked += file.size
        if file.size > MOST_BYTES or self.unpacked > MOST_UNPACKED:
            self.files.append((file, "unpacks to more than anybody hands in"))
            return
        self.archive(file.parts, file.source, depth + 1)

    def _timestamp(self, file):
        with contextlib.suppress(OSError, ValueError):
            self.times[file.parts[:-1]] = moment(_bytes(file.source, 200).decode("utf-8", "replace"))

    # ------------------------------------------------------------------------ whose it is

    def collection(self):
        of_whom = defaultdict(list)
        found = self._of_this_assignment([file for file, _ in self.files])
        reasons = {file.source or file.parts: reason for file, reason in self.files}
        wrapped = self._wrapped(found)
        if found and all(_of_an_archive_of_a_platform(file, wrapped) for file in found):
            wrapped += 1  # a download of each section
        for file in found:
            file = self._identified(file, wrapped)
            of_whom[file.identity].append((file, reasons[file.source or file.parts]))
        names = unique_names(of_whom)
        submissions = [
            chosen
            for identity in sorted(of_whom, key=lambda each: names[each])
            if (chosen := self._chosen(names[identity], of_whom[identity]))
        ]
        return Collection(tuple(submissions), tuple(self.left_out))

    def _of_this_assignment(self, files):
        """In nbgrader's tree, STUDENT/hw1/..., what lies in the folders of students, but not in hw2's."""
        self.level = self._level_of_students(files)
        if self.level is None:
            return files
        kept, stray = [], []
        folders = {file.parts[: self.level + 1] for file in files if self._nbgrader(file)}
        for file in files:
            if self._nbgrader(file):
                kept.append(file)
            elif any(part in _others(self.assignment.id) for part in file.parts[:-1]):
                continue
            elif len(file.parts) > self.level + 1:
                kept.append(replace(file, identity=file.parts[self.level]))
            else:
                stray.append(file)
        if len(stray) > len(folders):  # then it is rather a folder of notebooks
            return kept + stray
        for file in stray:
            self.leave_out(file.parts, f"lies in no folder {self.assignment.id}")
        return kept

    def _level_of_students(self, files):
        """How deep the folders of students lie in nbgrader's tree; None where it is no such tree.

        What one student has put into a folder hw1 makes no tree: it lies deeper than all students do.
        """
        wrapped, tops = self._wrapped(files), defaultdict(set)
        for file in files:
            folders = file.parts[:-1]
            tops[file.parts[min(wrapped, len(file.parts) - 1)]] |= {
                place - 1
                for place in range(1, len(folders))
                if folders[place] == self.assignment.id and not folders[place - 1].lower().endswith(".zip")
            }
        levels = sorted(set().union(*tops.values()))
        return next((n for n in levels if n <= wrapped or all(n in each for each in tops.values())), None)

    def _nbgrader(self, file):
        """Whether it lies in the folder of the assignment below that of a student."""
        folders = file.parts[:-1]
        return self.level is not None and folders[self.level + 1 : self.level + 2] == (self.assignment.id,)

    @staticmethod
    def _wrapped(files):
        """How many folders all files share that are nobody's own."""
        count = 0
        while len({file.parts[count] for file in files if len(file.parts) > count}) == 1 and all(
            len(file.parts) > count + 1 for file in files
        ):
            count += 1
        if count and all(len(file.parts) == count + 1 for file in files) and len(files) == 1:
            count -= 1  # one student's folder with one file
        return count

    def _identified(self, file, wrapped):
        """Whose it is; within a student's folder no name counts but the folder's."""
        folders, tree = file.parts[:-1], self._nbgrader(file)
        place = self.level if tree or file.identity else wrapped
        above = (n for n, part in enumerate(file.parts[: place + 1]) if _MOODLE.fullmatch(part))
        place = next(above, min(place, len(folders)))
        who, own = file.parts[place], place == len(folders)
        above = self.level + 1 if tree else 0  # a tree's own times lie in the students' folders
        near = [self.times[folders[:n]] for n in range(len(folders), above, -1) if folders[:n] in self.times]
        file = replace(file, time=near[0] if near else None)
        if found := _MOODLE.fullmatch(who):
            return replace(file, identity=f"{found['name']}_{found['id']}")
        if found := (own or who.lower().endswith(".zip")) and _of_canvas(who):
            attempt = _ATTEMPT.search(_stem(found["file"]))
            return replace(
                file,
                identity=f"{found['name']}_{found['id']}",
                late=bool(found["late"]),
                attempt=int(attempt["canvas"] or 0) if attempt else 0,
            )
        return self._by_its_name(file) if own else replace(file, identity=_stem(who))

    def _by_its_name(self, file):
        stem, attempt = _stem(file.parts[-1]), 0
        found = _ATTEMPT.search(stem)
        if found and found["copy"]:  # alice (1).ipynb, as a browser saves a second one
            stem, attempt = stem[: found.start()], int(found["copy"])
        dated = _DATE.search(stem)
        if dated and dated.end() == len(stem) and dated.start():  # alice_2026_11_30.ipynb
            stem, attempt = stem[: dated.start()], int("{}{:0>2}{:0>2}".format(*dated.groups()))
        id = re.escape(self.assignment.id)
        bare = re.sub(rf"(?i)^{id}[-_ .]+|[-_ .]+{id}$", "", stem)
        return replace(file, identity=bare or stem, attempt=attempt)

    # ------------------------------------------------------------------------ which counts

    def _chosen(self, student, files):
        notes, usable = [], [file for file, reason in files if not reason]
        for file, reason in files:
            if reason:
                self.left_out.append((file.place, reason))
        if not usable:
            place, reason = files[0][0].place, files[0][1]
            if all(reason == "is no notebook" for _, reason in files) and not _expected(files):
                return None  # a list of marks, a read-me: nobody's submission
            time = next((file.time for file, _ in files if file.time), None)
            told = "; ".join(f"{file.parts[-1]} {reason}" for file, reason in files[:5])
            return Submission(
                student,
                place,
                (),
                time,
                any(file.late for file, _ in files),
                (),
                f"There is no notebook among what was handed in: {told}.",
            )
        if len(usable) == 1 and usable[0].parts[-1].lower().endswith(".ipynb"):
            (best,) = usable  # not opened, for there is no choice
            return Submission(student, best.place, best.source, best.time, best.late)
        ranked = sorted(((self._rank(file), file) for file in usable), key=lambda each: each[0])
        best = ranked[-1][1]
        if not best.parts[-1].lower().endswith(".ipynb") and not ranked[-1][0][0]:
            self.left_out += [(file.place, "is no notebook") for file in usable]
            return None
        for _, other in ranked[:-1]:
            notes.append(
                f"{other.parts[-1]} was handed in too; {best.parts[-1]} counts, "
                f"{self._why(ranked[-1][0], self._rank(other))}."
            )
            self.left_out.append((other.place, f"{best.place} counts for {student}"))
        return Submission(student, best.place, best.source, best.time, best.late, tuple(notes))

    def _rank(self, file):
        """What fits comes before what is new, and what is new before what is fuller."""
        fits = 0
        with contextlib.suppress(OSError):
            notebook = submission.read(_bytes(file.source))
            if isinstance(notebook, submission.Notebook):
                fits = submission.fit(self.assignment, notebook)
        of = len(self.assignment.questions)
        return (2 * fits >= of and fits > 0, bool(fits), file.attempt, self._when(file), fits, file.parts[-1])

    @staticmethod
    def _when(file):
        """Seconds, by whatever clock there is."""
        if file.time:
            return file.time.timestamp()
        try:
            if len(file.source) == 1:
                return os.stat(file.source[0]).st_mtime
            with _opened(file.source[:-1]) as opened, zipfile.ZipFile(opened) as archive:
                return datetime(*archive.getinfo(file.source[-1]).date_time).timestamp()
        except (OSError, ValueError, KeyError, zipfile.BadZipFile, OverflowError):
            return 0.0

    @staticmethod
    def _why(best, other):
        if best[:2] != other[:2]:
            return "which fits the assignment"
        return "which is newer" if best[2:4] > other[2:4] else "which holds more of it"


def _expected(files):
    """Whether somebody handed these in: the platform says so, or they lie in a folder of their own."""
    return any(
        len(file.parts) > 1 or _MOODLE.fullmatch(file.parts[0]) or _CANVAS.fullmatch(file.parts[0])
        for file, _ in files
    )


def _of_canvas(name):
    """The match of a name that Canvas has given; dates are none: hw1_2026_11_30.ipynb."""
    found = _CANVAS.fullmatch(name)
    return None if found and any(_DATE.match(name, found.start(n) - 1) for n in ("id", "sub")) else found


def _of_an_archive_of_a_platform(file, place):
    """Whether it lies in an archive at this place of its path, and there under the name of a student."""
    if len(file.parts) < place + 2 or not file.parts[place].lower().endswith(".zip"):
        return False
    if _MOODLE.fullmatch(file.parts[place]) or _of_canvas(file.parts[place]):
        return False
    return bool(_MOODLE.fullmatch(file.parts[place + 1]) or _of_canvas(file.parts[place + 1]))


def _others(id):
    """The folders of other assignments: hw1, hw3 and so on where this one is hw2."""
    stem = id.rstrip("0123456789")
    return {f"{stem}{n}" for n in range(100)} - {id} if stem != id else set()


# ---------------------------------------------------------------------------------------- reading


def _bytes(source, most=None):
    """The bytes of a file in archives in archives, or its first ones.

    Raises
    ------
    OSError
        Whatever is the matter, a file that is larger than anybody hands in among them.
    """
    limit = MOST_BYTES + 1 if most is None else most
    try:
        with _opened(source) as file:
            data = file.read(limit)
    except (
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        RuntimeError,
        ValueError,
        KeyError,
        EOFError,
    ) as e:
        raise OSError(_words(e)) from None
    except OSError:
        raise
    except Exception as error:  # lzma and bz2 have errors of their own
        raise OSError(_words(error)) from None
    if most is None and len(data) > MOST_BYTES:
        raise OSError(f"it has more than {MOST_BYTES // 10**6} MB")
    return data


@contextlib.contextmanager
def _opened(source):
    """A file, or an entry of an archive, to be read. Archives within are unpacked in memory up to a limit."""
    # Neither a link nor a pipe that has come in a file's place since.
    handle = os.open(source[0], os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(os.fdopen(handle, "rb"))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no file")
        for place, entry in enumerate(source[1:], 1):
            archive = stack.enter_context(zipfile.ZipFile(file))
            info = archive.getinfo(entry)
            if info.flag_bits & 1:
                raise OSError("it is encrypted")
            file = stack.enter_context(archive.open(info))
            if place < len(source) - 1:
                data = file.read(MOST_BYTES + 1)
                if len(data) > MOST_BYTES:
                    raise OSError(f"it unpacks to more than {MOST_BYTES // 10**6} MB")
                file = io.BytesIO(data)
        yield file


def _begins_as_zip(path):
    with open(path, "rb") as file:
        return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


def _like_json(head):
    text = head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    return text[:1] == b"{"


def _words(error):
    text = " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())
    return text[:120].rstrip(".")


def _ignored(name):
    name = name.lower()
    return name in _IGNORED or name.startswith("._")


def _stem(name):
    return re.sub(r"(?i)\.(?:ipynb|json|txt|zip)(?:\.txt)?$", "", name) or name


def _shown(name):
    """A name that can be printed and encoded."""
    return (
        "".join(c if c.isprintable() else "?" for c in name.encode("utf-8", "replace").decode("utf-8"))[:200]
        or "?"
    )


# ------------------------------------------------------------------------------------------ names


def unique_names(identities):
    """A clean name for each identity, no two alike even where case does not count.

    Returns
    -------
    dict of str to str
    """
    alike = defaultdict(list)
    for identity in sorted(identities):
        alike[clean(identity).casefold()].append(identity)
    names = {}
    for same in alike.values():
        same.sort(key=lambda identity: (clean(identity) != identity, identity))
        for place, identity in enumerate(same):
            mark = f"-{hashlib.sha256(identity.encode()).hexdigest()[:6]}" if place else ""
            names[identity] = clean(identity) + mark
    return names


def clean(identity):
    """A name of letters, digits and ``. _ - @`` that begins with a letter or digit, at most 80 long."""
    text = unicodedata.normalize("NFC", identity)
    text = re.sub(r"[^\w.@-]+", "-", text).strip("-._@") or "student"
    while len(text.encode()) > 80:
        text = text[:-1]
    return text


def matched(listed, students):
    """Whom the names of a list mean: a platform appends a number of its own to a name.

    Parameters
    ----------
    listed : iterable of str
        Names or numbers, as a lecturer writes them.
    students : iterable of str
        As `collect` names them.

    Returns
    -------
    dict of str to str
        By the listed name, the student; without those that mean nobody, or not one alone.
    """
    called = defaultdict(set)
    for student in students:
        name, _, number = student.rpartition("_")
        numbered = re.fullmatch(r"\d{3,}", number)
        for word in {student, name, number} if numbered else {student}:
            called[word.casefold()].add(student)
    found = {}
    for each in listed:
        meant = {each} if each in students else called[clean(each).casefold()]
        if len(meant) == 1:
            (found[each],) = meant
    return found
