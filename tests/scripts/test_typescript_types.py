"""The types of the pages are those of the servers."""

from __future__ import annotations

from scripts.typescript_types import generated_files, typescript


def test_the_checked_in_types_are_up_to_date() -> None:
    for path, text in generated_files().items():
        assert path.read_text(encoding="utf-8") == text, "run: python scripts/typescript_types.py"


def test_optional_fields_of_requests_can_be_left_out() -> None:
    fields = {"a": {"type": "integer"}, "b": {"anyOf": [{"$ref": "#/components/schemas/Kind"}, {"type": "null"}]}}
    schemas = {
        "Kind": {"type": "string", "enum": ["x", "y"]},
        "Asked": {"type": "object", "properties": fields, "required": ["a"], "description": "A request."},
        "Found": {"type": "object", "properties": fields, "required": ["a"]},
    }
    body = {"requestBody": {"schema": {"$ref": "#/components/schemas/Asked"}}}
    text = typescript({"components": {"schemas": schemas}, "paths": {"/api": {"post": body}}})
    assert 'export type Kind = "x" | "y";' in text
    assert "/** A request. */\nexport interface Asked {\n  a: number;\n  b?: Kind | null;\n}" in text
    assert "export interface Found {\n  a: number;\n  b: Kind | null;\n}" in text
