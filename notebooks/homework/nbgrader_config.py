"""For nbgrader's own tools: this folder is the course."""

import os
import shutil
import sys
from pathlib import Path

c = get_config()  # noqa: F821
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
c.CourseDirectory.course_id = "Sample class"
# feedback/ and graded/ hold what attnlib's grader writes; nbgrader's own go elsewhere.
c.CourseDirectory.autograded_directory = "nbgrader_autograded"
c.CourseDirectory.feedback_directory = "nbgrader_feedback"
# Solutions are replaced by the words that attnlib's own release puts there, and the release is proved first.
c.ClearSolutions.code_stub = {"python": "# Your code comes here."}
c.ClearSolutions.text_stub = "*Your answer comes here.*"
c.GenerateAssignment.exporter_class = "attnlib.homework.nbgrader_parts.ProvedSource"
# nbgrader's autograder runs students' code without a sandbox: `course.py homework grade` grades instead.
c.Autograde.exporter_class = "attnlib.homework.nbgrader_parts.NoAutograder"
# What nobody has graded is no zero, in the feedback and in `nbgrader export`.
c.GenerateFeedback.preprocessors = [
    "attnlib.homework.nbgrader_parts.Grades", "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
c.ExportApp.plugin_class = "attnlib.homework.nbgrader_parts.ClassExport"
# nbgrader calls alembic by its bare name; it lies beside the Python that runs this.
if shutil.which("alembic") is None:
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
