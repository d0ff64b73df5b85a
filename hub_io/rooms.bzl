"""The rooms of this package and what each imports; `make bazel-rooms` writes this file."""

ROOMS = {
    "archives": [
        ":errors",
        "//graphdef_ir",
    ],
    "cache_folders": [
        ":errors",
        ":kaggle_cache",
        ":tfhub_cache",
    ],
    "download": [
        ":archives",
        ":errors",
        ":handles",
        "//graphdef_ir",
    ],
    "errors": ["//savedmodel_io"],
    "handles": [
        ":errors",
        ":kaggle_names",
    ],
    "kaggle_cache": [":handles"],
    "kaggle_names": [],
    "load": [
        ":cache_folders",
        ":download",
        ":errors",
        ":handles",
        ":kaggle_cache",
        ":module",
        ":sources",
        ":tfhub_cache",
        "//graphdef_ir",
        "//savedmodel_io",
        "@pypi//filelock",
    ],
    "module": [
        ":errors",
        "//graphdef_ir",
        "//savedmodel_io",
        "@pypi//protobuf",
    ],
    "sources": [
        ":archives",
        ":download",
        ":errors",
        ":handles",
        ":kaggle_cache",
        ":module",
        ":tfhub_cache",
        "//graphdef_ir",
        "//savedmodel_io",
    ],
    "tfhub_cache": [
        ":errors",
        "//savedmodel_io",
    ],
}
