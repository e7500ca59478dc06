"""Pages: what is escaped, and what a browser may do."""

import base64
import hashlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.pages.charts import chart_html, safe_json
from hyfdca.pages.elements import Html, element, escaped, joined
from hyfdca.pages.page import page_html
from hyfdca.pages.tables import Table, as_html, as_markdown
from tests.pages.reading import Parsed

HOSTILE = """</script><script>alert(1)</script> "quoted" 'text' & <b>"""


@given(st.text(), st.text())
def test_text_comes_back_as_it_was(content, value):
    """A reader gets any text and any attribute unchanged."""
    parsed = Parsed(element("p", content, data_x=value))
    # Line ends and null characters are normalised by all readers of HTML.
    if not set(content + value) & set("\r\0"):
        assert parsed.elements == [("p", {"data-x": value})]
        assert parsed.text == content


def test_html_is_escaped_once():
    """An element inside another stays an element."""
    inner = element("b", "a < b")
    assert element("p", inner, " & ") == "<p><b>a &lt; b</b> &amp; </p>"
    assert isinstance(joined([inner]), Html)
    assert escaped(inner) is inner


@given(st.recursive(st.text(), st.lists, max_leaves=5))
def test_json_in_a_script_is_the_same_json(content):
    """No text ends the script, and no reader of JSON sees a difference."""
    text = safe_json(json.dumps(content, ensure_ascii=False))
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == content


def test_tables_escape_names():
    """Names are escaped as markup in HTML and as columns in Markdown."""
    table = Table("title", ("name", "a|b"), ((HOSTILE, "1"),), "note <b>")
    assert HOSTILE in Parsed(as_html(table)).text
    assert "<script" not in as_html(table)
    assert "a\\|b" in as_markdown(table)


def test_a_row_needs_a_text_per_column():
    """A table is checked where it is made."""
    with pytest.raises(ValueError, match="one text per column"):
        Table("title", ("a", "b"), (("1",),))


def test_the_policy_allows_the_page_s_own_scripts_alone():
    """Two scripts by their hashes, no addresses, and data that is not a program."""
    chart = chart_html("one", json.dumps({"data": [], "layout": {"t": HOSTILE}}), "")
    page = page_html(HOSTILE, chart)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    programs = re.findall(r"<script>(.*?)</script>", page, flags=re.S)
    hashes = [hashlib.sha256(program.encode()).digest() for program in programs]
    allowed = [f"'sha256-{base64.b64encode(own).decode()}'" for own in hashes]
    assert len(programs) == 2
    assert f"script-src {' '.join(allowed)};" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "//" not in policy.replace(" ".join(allowed), "")
    assert [a.get("type") for tag, a in Parsed(page).elements if tag == "script"] == [
        "application/json",
        None,
        None,
    ]
