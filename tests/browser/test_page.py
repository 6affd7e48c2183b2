"""The web app in a browser."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from deixis.errors import DeixisError
from deixis.search.index.records import PhotoFilter
from deixis.search.query import parse_query
from deixis.web.security import AccessPolicy
from tests.browser.conftest import Site
from tests.web.fakes import FakeCollection, FakeInference, photo_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import expect

SEARCH = "Search photos by a sentence"
SENTENCE = "A sentence about this photo"
ACTIVE = re.compile("is-active")


def tiles(page: Page) -> Locator:
    return page.locator(".tile")


def edges(element: Locator) -> tuple[float, float]:
    """The left and the upper edge of an element."""
    box = element.bounding_box()
    assert box is not None
    return box["x"], box["y"]


def test_all_photos_are_shown_at_first(page: Page, site: Site) -> None:
    page.goto(site())
    expect(tiles(page)).to_have_count(5)
    expect(page.get_by_text("5 photos")).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert page.evaluate("[...document.querySelectorAll('.tile img')].every(each => each.naturalWidth > 0)")


def test_results_with_probabilities_are_shown_while_typing(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_label(SEARCH).fill("dog")
    expect(tiles(page)).to_have_count(1)
    expect(tiles(page).first).to_contain_text("very likely, 90 %")
    expect(page).to_have_url(re.compile(r"\?q=dog$"))
    page.reload()
    expect(tiles(page)).to_have_count(1)
    expect(page.get_by_label(SEARCH)).to_have_value("dog")


def test_an_empty_result_offers_the_closest_photos(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_label(SEARCH).fill("zebra")
    expect(page.get_by_role("heading", name="Nothing found.")).to_be_visible()
    expect(tiles(page)).to_have_count(0)
    page.get_by_role("button", name="Show the closest anyway").click()
    expect(tiles(page)).to_have_count(5)
    expect(page.get_by_text("The 5 closest")).to_be_visible()
    page.get_by_role("button", name="only likely ones").click()
    expect(page.get_by_role("heading", name="Nothing found.")).to_be_visible()


def test_a_phrase_of_the_query_highlights_its_boxes_in_the_results(page: Page, site: Site) -> None:
    page.goto(site() + "?q=dog")
    mark = page.locator("header mark.phrase")
    expect(mark).to_have_text("dog")
    box = tiles(page).first.locator(".box")
    expect(box).not_to_have_class(ACTIVE)
    mark.hover(force=True)  # the input covers it
    expect(box).to_have_class(ACTIVE)
    page.mouse.move(600, 700)
    expect(box).not_to_have_class(ACTIVE)


def test_a_tile_and_the_photo_page_show_the_same_boxes(page: Page, site: Site) -> None:
    page.goto(site() + "?q=dog")
    sides = """frame => ["x", "y", "width", "height"].map(side =>
        Number(frame.getAttribute(side)) / Number(frame.ownerSVGElement.viewBox.baseVal.width))"""
    in_tile = tiles(page).first.locator(".box-line")
    expect(in_tile).to_have_count(1)
    expected = in_tile.evaluate(sides)
    tiles(page).first.click()
    on_page = page.locator(".stage .box-line")
    expect(on_page).to_have_count(1)
    assert on_page.evaluate(sides) == expected


def test_labels_say_what_a_photo_shows_if_the_model_is_sure(page: Page, site: Site) -> None:
    page.goto(site())
    expect(page.get_by_label("a photo of something (dog.jpg)", exact=True)).to_be_visible()
    unsure = FakeInference()
    unsure.sure_of_caption = False
    with page.expect_response("**/api/caption"):
        page.goto(site(inference=unsure))
    page.wait_for_load_state("networkidle")
    expect(page.get_by_label("dog.jpg", exact=True)).to_be_visible()


def test_more_results_than_are_shown_are_not_counted_as_all(page: Page, site: Site) -> None:
    def many(route: Route) -> None:
        answer = route.fetch().json()
        answer["hits"] = [{**answer["hits"][0], "id": f"{number}-0"} for number in range(100)]
        route.fulfill(json=answer)

    page.route("**/api/search*", many)
    page.goto(site() + "?q=dog")
    expect(page.get_by_text("The 100 most likely photos")).to_be_visible()


def test_unknown_words_are_reported(page: Page, site: Site) -> None:
    page.goto(site() + "?q=dog+xyzzy")
    expect(page.get_by_text("not understood: “xyzzy”")).to_be_visible()
    page.get_by_label(SEARCH).fill("xyzzy")  # nothing is found because of it
    expect(page.get_by_text("The models do not know “xyzzy”")).to_be_visible()
    page.get_by_label("deixis, all photos").click()
    page.get_by_label("dog.jpg").click()
    page.get_by_label(SENTENCE).fill("dog and xyzzy")
    expect(page.get_by_text("Unknown words: “xyzzy”.")).to_be_visible()


def test_a_query_that_cannot_be_searched_for_is_not_a_fault_of_the_server(page: Page, site: Site) -> None:
    page.route("**/api/search*", lambda route: route.fulfill(status=400, json={"error": "date: is not a filter"}))
    page.goto(site() + "?q=date:2024")
    expect(page.get_by_role("heading", name="This cannot be searched for.")).to_be_visible()
    expect(page.get_by_text("date: is not a filter.", exact=True)).to_be_visible()


def test_similar_photos_are_not_called_unlikely(page: Page, site: Site, collection: FakeCollection) -> None:
    page.goto(site() + f"?like={next(iter(collection.known))}")
    expect(tiles(page)).to_have_count(4)
    expect(tiles(page).first).to_contain_text("very similar, 50 %")
    expect(page.get_by_role("button", name="less similar ones too")).to_be_visible()


def test_filters_that_exclude_all_photos_are_explained(page: Page, site: Site) -> None:
    page.goto(site() + "?q=dog+in%3Anowhere")
    expect(page.get_by_text("None of 5 photos passes the filters")).to_be_visible()
    expect(page.get_by_role("button", name="Show the closest anyway")).to_have_count(0)


def open_photo(page: Page, address: str, sentence: str) -> None:
    page.goto(address)
    page.get_by_label("dog.jpg").click()
    page.get_by_label(SENTENCE).fill(sentence)
    expect(page.locator(".phrase-line")).to_have_count(2)


def test_phrases_of_a_sentence_and_their_boxes_highlight_each_other(page: Page, site: Site) -> None:
    open_photo(page, site(), "dog 🐕 in snow")
    lines, boxes, marks = page.locator(".phrase-line"), page.locator(".stage .box"), page.locator("aside mark.phrase")
    expect(marks).to_have_text(["dog", "snow"])  # also after a character of two code units
    colour = "getComputedStyle(document.querySelector('.stage .box-line')).stroke"
    assert page.evaluate(colour) == "rgb(213, 94, 0)"
    lines.nth(0).hover()
    expect(boxes.nth(0)).to_have_class(ACTIVE)
    expect(marks.nth(0)).to_have_class(ACTIVE)
    page.mouse.move(5, 5)
    boxes.nth(0).hover()
    expect(lines.nth(0)).to_have_class(ACTIVE)
    marks.nth(1).hover(force=True)
    expect(lines.nth(1)).to_have_class(ACTIVE)


def test_the_box_of_an_unlikely_phrase_is_shown_only_on_hover(page: Page, site: Site) -> None:
    inference = FakeInference()
    inference.presence_of_last = 0.05
    open_photo(page, site(inference=inference), "dog in snow")
    expect(page.get_by_text("probably not here")).to_be_visible()
    expect(page.locator(".stage .box")).to_have_count(1)
    page.locator(".phrase-line").nth(1).hover()
    expect(page.locator(".stage .box")).to_have_count(2)


def test_a_box_for_an_unknown_word_is_marked_as_a_guess(page: Page, site: Site) -> None:
    open_photo(page, site(), "dog or xyzzy")
    known, guessed = page.locator(".phrase-line").all()
    expect(known).not_to_contain_text("guess")
    expect(guessed).to_contain_text("a guess")
    expect(page.locator(".stage .box-tag")).to_have_text(["1", "2?"])
    lines = page.locator(".stage .box-line")
    dashes = [line.get_attribute("stroke-dasharray") for line in lines.all()]
    assert [dash is None for dash in dashes].count(True) == 1


def test_phrases_that_share_a_box_show_both_colours(page: Page, site: Site) -> None:
    open_photo(page, site(), "same as same")
    lines = page.locator(".stage .box-line")
    expect(lines).to_have_count(2)
    below, above = lines.all()
    assert below.get_attribute("stroke") != above.get_attribute("stroke")
    assert below.get_attribute("stroke-dasharray") is None  # and shows through the gaps of the other
    assert above.get_attribute("stroke-dasharray") is not None
    left, right = (tag.bounding_box() for tag in page.locator(".stage .box-tag").all())
    assert left is not None
    assert right is not None
    assert left["x"] + left["width"] <= right["x"] + 1


def test_a_photo_page_has_a_caption_regions_and_metadata(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_label("dog.jpg").click()
    expect(page.get_by_text("A photo of something.")).to_be_visible()
    expect(page.get_by_text("1 June 2024 · Camera 1 · 640 × 480")).to_be_visible()
    regions = page.locator(".region")
    expect(regions).to_have_text(["a brown thing", "a corner"])
    regions.first.hover()
    expect(page.locator(".stage .box-tag")).to_have_text("a brown thing")
    page.get_by_role("button", name="More like this").click()
    expect(tiles(page)).to_have_count(4)  # without the photo itself
    expect(page.get_by_alt_text("The photo to search by")).to_be_visible()


def test_near_duplicates_are_counted_and_shown_with_the_photo(
    page: Page, site: Site, collection: FakeCollection
) -> None:
    collection.alike = tuple(hit for hit in collection.like(None) if hit.path.stem == "cat")
    page.goto(site() + "?q=o")
    expect(tiles(page).first).to_contain_text("+1 alike")
    tiles(page).first.click()
    page.get_by_role("button", name="cat.jpg").click()
    expect(page.locator(".about")).to_contain_text("cat.jpg")
    page.go_back()
    expect(page.locator(".about")).to_contain_text("boat.jpg")
    page.go_forward()
    expect(page.get_by_text("1 of 2")).to_be_visible()
    expect(page.get_by_role("button", name="boat.jpg")).to_be_visible()
    page.keyboard.press("ArrowRight")  # not to the first of all
    expect(page.locator(".about")).to_contain_text("dog.jpg")
    page.keyboard.press("Escape")
    expect(tiles(page)).to_have_count(2)


def test_an_empty_index_says_how_to_fill_it_and_shows_its_first_photos_without_a_reload(
    page: Page, site: Site, collection: FakeCollection
) -> None:
    growing = FakeCollection()
    page.goto(site(growing))
    expect(page.get_by_role("heading", name="No photos yet.")).to_be_visible()
    expect(page.get_by_text("deixis index PHOTOS")).to_be_visible()
    growing.known = collection.known
    expect(tiles(page)).to_have_count(5, timeout=15_000)


def test_a_dropped_photo_is_searched_by(page: Page, site: Site) -> None:
    page.goto(site() + "?q=dog")
    expect(tiles(page)).to_have_count(1)
    content = base64.b64encode(photo_bytes()).decode()
    transfer = page.evaluate_handle(
        """content => {
            const transfer = new DataTransfer();
            const bytes = Uint8Array.from(atob(content), each => each.charCodeAt(0));
            transfer.items.add(new File([bytes], "mine.jpg", { type: "image/jpeg" }));
            return transfer;
        }""",
        content,
    )
    page.dispatch_event("body", "dragenter", {"dataTransfer": transfer})
    expect(page.get_by_text("Drop a photo to find others like it")).to_be_visible()
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})
    expect(tiles(page)).to_have_count(5)
    expect(page.get_by_text("Drop a photo to find others like it")).to_have_count(0)
    expect(page.get_by_alt_text("The photo to search by")).to_be_visible()
    page.get_by_role("button", name="Caption and describe this photo").click()
    expect(page.get_by_text("A photo of something.")).to_be_visible()
    page.get_by_label("A sentence about this photo").fill("dog cat")
    expect(page.locator(".phrase-line")).to_have_count(2)
    page.get_by_role("button", name="Back").click()
    expect(tiles(page)).to_have_count(5)


def test_a_file_that_is_not_a_photo_is_refused_with_a_message(page: Page, site: Site, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a photo")
    page.goto(site())
    page.get_by_label("A photo to search by").set_input_files(tmp_path / "notes.txt")
    expect(page.get_by_text("not a photo in a known format")).to_be_visible()


def test_everything_works_from_the_keyboard(page: Page, site: Site) -> None:
    page.goto(site())
    expect(tiles(page)).to_have_count(5)
    page.keyboard.press("/")
    expect(page.get_by_label(SEARCH)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(tiles(page).nth(0)).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect(tiles(page).nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".stage")).to_be_visible()
    expect(page.get_by_text("2 of 5")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("3 of 5")).to_be_visible()
    page.keyboard.press("Escape")
    expect(tiles(page).nth(2)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label(SEARCH)).to_be_focused()
    page.keyboard.type("dog")
    page.keyboard.press("Enter")
    expect(tiles(page)).to_have_count(1)
    page.keyboard.press("Escape")  # leaves the field
    page.keyboard.press("Escape")  # what was typed stays
    expect(page.get_by_label(SEARCH)).to_have_value("dog")
    expect(tiles(page)).to_have_count(1)


def test_escape_goes_one_step_back_and_keeps_what_was_typed(page: Page, site: Site) -> None:
    page.goto(site() + "?q=dog")
    tiles(page).first.click()
    page.get_by_label(SENTENCE).fill("dog in snow")
    page.keyboard.press("Escape")  # leaves the field
    page.keyboard.press("f")
    expect(page.locator(".stage.is-full")).to_be_visible()
    box = page.locator(".stage img.picture").bounding_box()
    assert box is not None
    assert max(box["height"] / 800, box["width"] / 1200) == pytest.approx(1, abs=0.01)
    page.set_viewport_size({"width": 600, "height": 800})
    assert page.locator(".stage").bounding_box() == {"x": 0, "y": 0, "width": 600, "height": 800}
    page.keyboard.press("z")
    expect(page.locator("figure.is-zoomed")).to_be_visible()
    for gone in ("figure.is-zoomed", ".stage.is-full", ".stage"):
        expect(page.locator(gone)).to_have_count(1)
        page.keyboard.press("Escape")
        expect(page.locator(gone)).to_have_count(0)
    expect(page.get_by_label(SEARCH)).to_have_value("dog")
    tiles(page).first.click()
    expect(page.get_by_label(SENTENCE)).to_have_value("dog in snow")


def test_escape_closes_the_folders_before_it_ends_a_selection(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_role("button", name="Select").click()
    page.get_by_label("dog.jpg").click()
    page.get_by_role("button", name="Folders", exact=True).click()
    page.keyboard.press("Escape")
    expect(page.locator(".panel")).to_have_count(0)
    expect(page.get_by_text("1 photo selected")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("1 photo selected")).to_have_count(0)


def test_a_slide_show_goes_through_the_photos_and_ends_with_the_last(page: Page, site: Site) -> None:
    page.clock.install()
    page.goto(site())
    tiles(page).nth(2).click()
    page.get_by_role("button", name="Slide show").click()
    expect(page.locator(".stage.is-full")).to_be_visible()
    for place in ("4", "5"):
        page.clock.run_for(4100)
        expect(page.get_by_text(f"{place} of 5")).to_be_attached()
    page.clock.run_for(20_000)
    expect(page.get_by_text("5 of 5")).to_be_attached()
    page.keyboard.press("Escape")
    expect(page.locator(".stage.is-full")).to_have_count(0)


def test_a_page_of_keys(page: Page, site: Site) -> None:
    page.goto(site())
    expect(tiles(page)).to_have_count(5)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("slide show")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label(SEARCH).press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_photos_are_below_the_months_in_which_they_were_taken(
    page: Page, site: Site, collection: FakeCollection
) -> None:
    dates = iter((("2024-07-02T10:00:00", "exif"), ("2024-06-01T10:00:00", "name"), ("2024-01-01T10:00:00", "file")))
    for photo_id, photo in list(collection.known.items()):
        taken, source = next(dates, (None, None))
        collection.known[photo_id] = replace(photo, taken=taken, date_source=source)
    collection.undated = 3
    page.goto(site())
    titles = page.locator(".month-title")
    expect(titles).to_have_text(["July 2024", "June 2024", "No date"])
    below = [edges(title) for title in titles.all()]
    assert below[0][1] == below[1][1] < below[2][1]  # months of few photos share a row
    months = [
        max(place for place, (x, y) in enumerate(below) if x <= left and y < top)
        for left, top in map(edges, tiles(page).all())
    ]
    assert months == [0, 1, 2, 2, 2]
    page.get_by_role("button", name="No date, 3 photos").click()
    expect(page.get_by_label(SEARCH)).to_have_value("is:undated")


def test_all_years_are_shown_and_the_chosen_one_with_its_months(page: Page, site: Site) -> None:
    counts = [{"name": f"{year}-{month:02}", "photos": 3} for year in range(1995, 2025) for month in (3, 8)]
    answer = {"folders": [], "months": counts, "undated": 0, "albums": []}
    page.route("**/api/overview*", lambda route: route.fulfill(json=answer))
    page.goto(site())
    expect(page.locator(".month")).to_have_count(30)
    page.get_by_role("button", name="2003, 6 photos").click()
    expect(page.get_by_label(SEARCH)).to_have_value("after:2003 before:2004")
    expect(page.locator(".month")).to_have_count(31)
    expect(page.locator(".month.is-active")).to_have_count(2)  # the months of the year
    expect(page.locator(".month.is-active").first).to_be_in_viewport()
    page.get_by_role("button", name="August 2003, 3 photos").click()
    expect(page.get_by_label(SEARCH)).to_have_value("after:2003-08 before:2003-09")
    page.get_by_role("button", name="August 2003, 3 photos").click()
    expect(page.get_by_label(SEARCH)).to_have_value("")


def test_favourites_are_marked_found_and_written_beside_the_photos(page: Page, site: Site, folder: Path) -> None:
    page.goto(site())
    page.get_by_label("dog.jpg").click()
    page.keyboard.press("*")
    expect(page.locator(".star")).to_have_attribute("aria-pressed", "true")
    assert 'xmp:Rating="5"' in (folder / "dog.jpg.xmp").read_text()
    page.keyboard.press("Escape")
    expect(page.get_by_label("dog.jpg), favourite")).to_be_visible()
    page.get_by_role("button", name="Favourites").click()
    expect(tiles(page)).to_have_count(1)
    tiles(page).first.click()
    page.locator(".star").click()
    expect(page.locator(".star")).to_have_attribute("aria-pressed", "false")
    assert not (folder / "dog.jpg.xmp").exists()


def test_a_favourite_that_cannot_be_written_is_reported_in_one_line(
    page: Page, site: Site, collection: FakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DeixisError("/photos/dog.jpg.xmp: the file system is read-only")

    monkeypatch.setattr(collection, "set_favourites", fail)
    page.goto(site())
    page.get_by_label("dog.jpg").click()
    page.locator(".star").click()
    expect(page.get_by_role("alert")).to_have_text("…: the file system is read-only.")


def test_an_album_is_made_opened_and_emptied(page: Page, site: Site, folder: Path) -> None:
    page.goto(site())
    page.get_by_role("button", name="Select").click()
    page.get_by_label("boat.jpg").click()
    page.get_by_label("dog.jpg").click(modifiers=["Shift"])
    expect(page.get_by_text("3 photos selected")).to_be_visible()
    page.get_by_label("Album").fill("Best of 2024")
    page.get_by_role("button", name="Add to album").click()
    expect(page.get_by_text("Added to Best of 2024.")).to_be_visible()
    listed = (folder / "albums" / "Best of 2024.txt").read_text().split()
    assert listed == [str(folder / f"{name}.jpg") for name in ("boat", "cat", "dog")]
    page.get_by_role("button", name="Done").click()
    page.get_by_label("Album").select_option("Best of 2024")
    expect(page.get_by_label(SEARCH)).to_have_value('album:"Best of 2024"')
    expect(tiles(page)).to_have_count(3)
    page.get_by_role("button", name="Select").click()
    page.get_by_label("cat.jpg").click()
    page.get_by_role("button", name="Remove from album").click()
    expect(tiles(page)).to_have_count(2)


def test_several_photos_are_downloaded_as_one_zip(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_role("button", name="Select").click()
    page.get_by_label("dog.jpg").click()
    page.get_by_label("cat.jpg").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    assert saved.value.suggested_filename == "photos.zip"
    with ZipFile(saved.value.path()) as archive:
        assert sorted(archive.namelist()) == ["cat.jpg", "dog.jpg"]
    page.get_by_label("cat.jpg").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    assert saved.value.suggested_filename == "dog.jpg"
    expect(page.get_by_text("1 photo selected")).to_be_visible()


def test_a_photo_is_zoomed_opened_and_saved_and_leads_to_its_folder(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_label("dog.jpg").click()
    picture = page.locator("img.picture")
    expect(picture).to_be_visible()
    before = picture.bounding_box()
    page.get_by_role("button", name="Zoom", exact=True).click()
    assert picture.bounding_box()["width"] > 2 * before["width"]
    page.get_by_role("button", name="Fit", exact=True).click()
    expect(page.get_by_role("link", name="Open the original")).to_have_attribute("href", re.compile("/original$"))
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download").click()
    assert saved.value.suggested_filename == "dog.jpg"
    page.get_by_role("button", name="Folder").click()
    expect(page).to_have_url(re.compile("q=in%3A"))


def test_formats_that_browsers_do_not_show_work_too(page: Page, site: Site, folder: Path) -> None:
    (folder / "scan.tif").write_bytes(photo_bytes((640, 480), "TIFF"))
    page.goto(site(FakeCollection([folder / "scan.tif"], folder)))
    page.get_by_label("scan.tif").click()
    page.get_by_role("button", name="Zoom", exact=True).click()
    expect(page.locator("img.picture")).to_have_class(re.compile("is-there"))
    expect(page.locator("img.picture")).to_have_attribute("src", re.compile("/image"))
    page.get_by_role("button", name="Back").click()
    page.get_by_label("A photo to search by").set_input_files(folder / "scan.tif")
    page.get_by_role("button", name="Caption and describe this photo").click()
    expect(page.get_by_text("A photo of something.")).to_be_visible()
    expect(page.locator("img.picture")).to_have_class(re.compile("is-there"))
    natural = "[...document.querySelectorAll('img.picture, img.search-picture')].map(each => each.naturalWidth)"
    assert page.evaluate(natural) == [640, 640]
    expect(page.get_by_role("button", name="Zoom", exact=True)).to_be_visible()


def test_boxes_keep_their_lines_when_a_photo_is_zoomed(page: Page, site: Site) -> None:
    open_photo(page, site(), "dog in snow")
    width = """() => document.querySelector('.stage figure').getBoundingClientRect().width && Number(
        getComputedStyle(document.querySelector('.stage .box-line')).strokeWidth.replace('px', '')) * new DOMMatrix(
        getComputedStyle(document.querySelector('.zoomed')).transform).a"""
    before = page.evaluate(width)
    page.get_by_role("button", name="Zoom", exact=True).click()
    expect(page.locator("figure.is-zoomed")).to_be_visible()
    assert page.evaluate(width) == pytest.approx(before, abs=0.1)


def test_a_folder_with_quotation_marks_can_be_chosen(page: Page, site: Site, collection: FakeCollection) -> None:
    page.goto(site())
    page.get_by_role("button", name="Folders", exact=True).click()
    page.get_by_role("button", name=collection.odd_folder).click()
    query = page.get_by_label(SEARCH).input_value()
    assert parse_query(query).photo_filter == PhotoFilter(folder=f"holiday/{collection.odd_folder}/")
    page.get_by_role("button", name=f"Folder {collection.odd_folder}").click()
    page.get_by_role("button", name="All folders").click()
    expect(page.get_by_label(SEARCH)).to_have_value("")
    page.get_by_role("button", name="Folders", exact=True).click()
    page.get_by_role("button", name="Folders in holiday").click()
    expect(page.get_by_role("button", name=collection.odd_folder)).to_have_count(0)
    page.get_by_role("button", name="holiday 5").click()
    page.get_by_role("button", name="remove filter").click()
    expect(page.get_by_label(SEARCH)).to_have_value("")


def test_the_timeline_and_the_folders_follow_the_query(page: Page, site: Site) -> None:
    page.goto(site())
    expect(page.get_by_role("button", name="June 2024, 5 photos")).to_be_visible()
    page.get_by_label(SEARCH).fill("dog")
    expect(page.get_by_role("button", name="June 2024, 1 photos")).to_be_visible()
    page.get_by_role("button", name="Folders", exact=True).click()
    expect(page.get_by_role("button", name="2024 1")).to_be_visible()


def test_another_word_is_one_click_away_and_so_is_the_query_as_typed(page: Page, site: Site) -> None:
    page.goto(site() + "?q=the+Xyzzy+outside")
    page.get_by_role("button", name="try “dog”").click()
    expect(page.get_by_label(SEARCH)).to_have_value("the dog outside")
    expect(tiles(page)).to_have_count(1)
    page.get_by_label(SEARCH).fill("dog in June 2021")
    expect(page.get_by_text("only after:2021-06 before:2021-07")).to_be_visible()
    page.get_by_role("button", name="search for “in June 2021” instead").click()
    expect(page.get_by_label(SEARCH)).to_have_value('dog "in June 2021"')


def test_what_a_search_finds_is_not_called_unlikely(page: Page, site: Site, collection: FakeCollection) -> None:
    collection.probability = 0.15
    page.goto(site() + "?q=dog")
    expect(tiles(page).first).to_contain_text("maybe, 15 %")
    page.get_by_role("button", name="unlikely ones too").click()
    expect(tiles(page).last).to_contain_text("unlikely, 1 %")


def test_filters_are_chosen_and_removed(page: Page, site: Site, collection: FakeCollection) -> None:
    page.goto(site())
    page.get_by_role("button", name="June 2024, 5 photos").click()
    expect(page.get_by_label(SEARCH)).to_have_value("after:2024-06 before:2024-07")
    expect(tiles(page)).to_have_count(5)
    expect(page.locator(".reading")).to_have_text("5 photos")  # nothing about percentages
    page.get_by_role("button", name="June 2024 remove filter").click()
    expect(page.get_by_label(SEARCH)).to_have_value("")
    page.get_by_label(SEARCH).fill("after:2024-06 before:2025")
    page.get_by_role("button", name="after:2024-06 remove filter").click()
    expect(page.get_by_label(SEARCH)).to_have_value("before:2025")


def test_several_photos_are_selected_and_their_paths_copied(page: Page, site: Site, folder: Path) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(site())
    page.get_by_role("button", name="Select").click()
    page.get_by_label("dog.jpg").click()
    page.get_by_label("cat.jpg").click()
    expect(page.get_by_text("2 photos selected")).to_be_visible()
    page.get_by_role("button", name="Copy paths").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"{folder / 'dog.jpg'}\n{folder / 'cat.jpg'}"
    page.get_by_role("button", name="Done").click()
    expect(tiles(page)).to_have_count(5)


def test_the_page_is_an_app_and_the_logo_stays_where_it_is(page: Page, site: Site) -> None:
    address = site()
    page.goto(address)
    manifest = page.request.get(address + "assets/manifest.webmanifest").json()
    for icon in manifest["icons"]:
        assert page.request.get(address.rstrip("/") + icon["src"]).ok
    at_home = page.locator(".name").bounding_box()
    page.goto(address + "?q=dog")
    expect(tiles(page)).to_have_count(1)
    assert page.locator(".name").bounding_box() == at_home


def test_the_back_button_returns_to_the_previous_view(page: Page, site: Site) -> None:
    page.goto(site())
    page.get_by_label(SEARCH).fill("dog")
    expect(tiles(page)).to_have_count(1)
    tiles(page).first.click()
    expect(page.locator(".stage")).to_be_visible()
    page.go_back()
    expect(tiles(page)).to_have_count(1)
    for _ in range(2):
        tiles(page).first.click()
        expect(page.locator(".stage")).to_be_visible()
        page.keyboard.press("Escape")
        expect(tiles(page)).to_have_count(1)
    page.go_back()  # photos that were opened and closed need no steps
    expect(tiles(page)).to_have_count(5)


def test_a_caption_that_is_not_sure_is_not_stated(page: Page, site: Site) -> None:
    inference = FakeInference()
    inference.sure_of_caption = False
    page.goto(site(inference=inference))
    page.get_by_label("dog.jpg").click()
    expect(page.get_by_text("Not sure: perhaps a photo of something.")).to_be_visible()
    expect(page.locator(".caption")).to_have_count(0)
    expect(page.get_by_placeholder("Type a sentence about this photo")).to_be_visible()


def test_only_the_url_with_the_token_opens_the_page(page: Page, site: Site) -> None:
    address = site(policy=AccessPolicy("0.0.0.0", "correct-horse-battery"))
    page.goto(address)
    for _ in range(6):
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("alert")).to_have_text(re.compile("not valid|Too many wrong passwords; try again in"))
    expect(page.get_by_role("alert")).to_contain_text("Too many")
    page.wait_for_timeout(1500)
    page.get_by_label("Password").fill("correct-horse-battery")
    page.get_by_role("button", name="Open").click()
    expect(tiles(page)).to_have_count(5)
    expect(page).to_have_url(address)
    page.get_by_label("dog.jpg").click()
    expect(page.get_by_text("A photo of something.")).to_be_visible()


def test_a_broken_photo_does_not_break_the_page(page: Page, site: Site, folder: Path) -> None:
    (folder / "dog.jpg").write_bytes(b"broken")
    page.goto(site())
    expect(tiles(page)).to_have_count(5)
    expect(page.get_by_text("cannot be shown")).to_be_visible()
    page.get_by_label("dog.jpg").click()
    expect(page.get_by_text("The file itself cannot be read any more")).to_be_visible()
    page.keyboard.press("Escape")
    expect(tiles(page)).to_have_count(5)


def test_a_missing_photo_is_reported(page: Page, site: Site) -> None:
    page.goto(site() + "?photo=0-0")
    expect(page.get_by_role("heading", name="This photo cannot be shown.")).to_be_visible()
    page.get_by_role("button", name="Back", exact=True).click()
    expect(tiles(page)).to_have_count(5)


def test_an_unreachable_server_is_reported(page: Page, site: Site) -> None:
    page.goto(site())
    expect(tiles(page)).to_have_count(5)
    page.route("**/api/search*", lambda route: route.abort())
    page.get_by_label(SEARCH).fill("dog")
    expect(page.get_by_text("The server cannot be reached.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_in_light_and_dark_mode(browser: Browser, site: Site, scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        color_scheme=scheme,
        has_touch=True,
        is_mobile=True,  # type: ignore[arg-type]
    )
    page = context.new_page()
    page.goto(site() + "?q=a+very+long+sentence+about+a+dog+that+runs+through+the+snow+and+then+some+more")
    expect(tiles(page).first).to_be_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth") == 390
    tiles(page).first.tap()
    expect(page.locator(".stage")).to_be_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth") == 390
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (background == "rgb(250, 249, 246)") is (scheme == "light")
    context.close()


def test_photos_begin_in_the_upper_half_of_a_phone_held_sideways(browser: Browser, site: Site) -> None:
    context = browser.new_context(viewport={"width": 844, "height": 390}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(site())
    expect(tiles(page)).to_have_count(5)
    assert edges(tiles(page).first)[1] < 195
    expect(page.locator("kbd")).to_be_hidden()
    page.get_by_role("button", name="Select").tap()
    page.get_by_label("dog.jpg").tap()
    box = page.locator(".selection").bounding_box()
    assert box is not None
    assert box["height"] < 60
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    last = tiles(page).last.bounding_box()
    assert last is not None
    assert last["y"] + last["height"] <= box["y"]
    page.evaluate("document.querySelector('.keys-button').click()")
    expect(page.get_by_role("heading", name="Keys")).to_be_in_viewport()
    context.close()
