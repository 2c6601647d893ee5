"""Homework: assignments in variants, released in nbgrader's format and graded in a sandbox."""

from attnlib.homework.local import local_check

__all__ = ["local_check"]
