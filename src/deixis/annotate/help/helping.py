"""The help that a project's settings ask for, by the models that come with deixis."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from deixis.annotate.help.boxes import BoxCertainty, point_at_mentions, proposed_boxes
from deixis.annotate.help.coreference import Coreference
from deixis.annotate.help.ordering import most_uncertain_first
from deixis.annotate.help.proposing import BoxModel, LinkModel, Proposing, propose
from deixis.annotate.material import Material
from deixis.annotate.project import Project
from deixis.annotate.settings import Settings
from deixis.errors import DeixisError
from deixis.files.hashes import hash_of_file
from deixis.files.progress import OnProgress, silent

KINDS = ("links", "boxes")
GROUNDER = "grounder"


def asking_for(settings: Settings, kinds: str | None, order: str | None) -> Settings:
    """Settings that ask for help, as somebody types it.

    Examples
    --------
    >>> asking_for(Settings(), "links,boxes", "uncertain").propose_boxes
    True
    """
    wanted = [kind.strip() for kind in kinds.split(",")] if kinds else []
    for kind in wanted:
        if kind not in KINDS:
            raise DeixisError(f"--propose {kinds}: choose from: {', '.join(KINDS)}, with a comma between them")
    settings = replace(settings, propose_links="links" in wanted, propose_boxes="boxes" in wanted)
    return replace(settings, order=order) if order else settings


def is_asked_for(settings: Settings) -> bool:
    """Whether a project's owner wants any help."""
    return settings.propose_links or settings.propose_boxes


def propose_as_set(project: Project, on_progress: OnProgress = silent) -> Proposing:
    """Let the models propose what the project's settings ask for, and order the photos as they say.

    Raises
    ------
    DeixisError
        Where they ask for nothing, or for boxes where there are no photos.
    """
    settings = project.settings
    if not is_asked_for(settings):
        place = project.folder / "settings.json"
        raise DeixisError(f"{place}: propose_links and propose_boxes are both false; set what the models shall propose")
    bounds = (settings.links_yes_from, settings.links_no_below)
    links = LinkModel(Coreference.shipped(), *bounds) if settings.propose_links else None
    boxes = grounder_of(project) if settings.propose_boxes else None
    done = propose(project, links=links, boxes=boxes, on_progress=on_progress)
    if settings.order == "uncertain":
        most_uncertain_first(project)
    return done


def grounder_of(project: Project) -> BoxModel:
    """The grounder that comes with deixis, looking at the photos of a project."""
    images = project.images
    if images is None:
        raise DeixisError(
            f"{project.folder}: there are no photos, so no box can be proposed; set propose_boxes to false"
        )
    from deixis.tasks.bundle import load
    from deixis.tasks.grounding import Pointer
    from deixis.tasks.shipped_models import place_of

    pointer, certainty = Pointer(load(GROUNDER)), BoxCertainty.shipped()

    def find(material: Material) -> dict[str, list[list[float]]]:
        if material.file is None or not (images / material.file).is_file():
            return {}
        return proposed_boxes(point_at_mentions(pointer, pointer.look_at(images / material.file), material), certainty)

    weights = "".join(hash_of_file(file) for file in sorted(place_of(GROUNDER).rglob("*.safetensors")))
    fingerprint = hashlib.sha256(weights.encode()).hexdigest()[:12]
    return BoxModel(find, fingerprint, project.settings.boxes_show_from)
