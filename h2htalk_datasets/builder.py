"""The `datasets` builder: the eleven tasks and the probe sets as configs with one split, ``test``."""

__all__ = ["CITATION", "DESCRIPTION", "H2HTalk", "LanguageConfig"]

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from h2htalk_datasets.columns import features_of
from h2htalk_datasets.languages import LANGUAGES, Language
from h2htalk_datasets.tasks import MEMORY, PROBE_SETS, TASKS

CITATION = """\
@misc{h2htalk2025,
  author = {Wang, Boyang and Wu, Yalun and Guo, Hongcheng and Li, Zhoujun},
  title  = {H2HTalk: Evaluating Large Language Models as Emotional Companion},
  eprint = {2507.03543}, archivePrefix = {arXiv}, year = {2025}
}
"""
DESCRIPTION = (
    "Complete, openly licensed records for the eleven tasks of H2HTalk: prompt and reference for an emotional "
    "companion. An independent re-creation after the paper's taxonomy; not comparable with the paper's Table 2."
)
_VERSION = datasets.Version("2.0.0")


@dataclass
class LanguageConfig(datasets.BuilderConfig):
    """One task in one language, or a probe set.

    Attributes:
        data_name: name of the task or probe set, without a language.
        language: code of the language of its records.

    """

    data_name: str = ""
    language: str = "en"


def _config(data_name: str, description: str, language: Language = LANGUAGES["en"]) -> LanguageConfig:
    return LanguageConfig(
        name=data_name + language.config_suffix,
        version=_VERSION,
        description=description,
        data_name=data_name,
        language=language.code,
    )


class H2HTalk(datasets.GeneratorBasedBuilder):
    """Yields the shipped records of one config; ``load_dataset("h2htalk", CONFIG)`` finds it once it is prepared."""

    VERSION = _VERSION
    BUILDER_CONFIG_CLASS = LanguageConfig
    BUILDER_CONFIGS = [
        *(
            _config(task.name, f"{task.dimension}: {task.name}, {language.name}", language)
            for language in LANGUAGES.values()
            for task in TASKS.values()
        ),
        *(_config(name, f"probe set, not part of the eleven tasks: {name}") for name in PROBE_SETS),
        _config(MEMORY, "questions about conversations over weeks, not part of the eleven tasks"),
    ]

    def _info(self) -> datasets.DatasetInfo:
        columns = features_of(self.config.data_name)
        return datasets.DatasetInfo(description=DESCRIPTION, features=columns, citation=CITATION, license="CC-BY-4.0")

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        file = Path(__file__).parent / "data" / self.config.language / f"{self.config.data_name}.parquet"
        return [datasets.SplitGenerator(name=datasets.Split.TEST, gen_kwargs={"file": file})]

    def _generate_examples(self, file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
        import pyarrow.parquet

        for row in pyarrow.parquet.read_table(file).to_pylist():
            yield row["id"], row
