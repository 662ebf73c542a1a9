"""Holds the documents of a manifest against Kubernetes' published schemas, of which the package kubernetes-validate has
a copy.

    check_manifest.py PACKAGES MANIFEST

Prints kind and name of each object, followed by what is wrong with it. Exits with 77 if the schemas are not there."""

import glob
import json
import os
import re
import sys

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(error)
    sys.exit(77)

DEFINITIONS = "https://kubernetes.io/api/_definitions.json"  # as the schemas name them
folders = sorted(glob.glob(os.path.join(sys.argv[1], "kubernetes_validate/kubernetes-json-schema/v*-local-strict")))
if not folders:
    sys.exit(77)
folder = os.path.abspath(folders[-1])
definitions = json.load(open(f"{folder}/_definitions.json"))

for document in yaml.safe_load_all(open(sys.argv[2])):
    version = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", document["apiVersion"])
    path = f"{folder}/{document['kind'].lower()}-{version}.json"
    resolver = jsonschema.RefResolver("https://kubernetes.io/api/", None, store={DEFINITIONS: definitions})
    errors = list(jsonschema.Draft7Validator(json.load(open(path)), resolver=resolver).iter_errors(document))
    wrong = "; ".join(f"{'/'.join(map(str, e.absolute_path))}: {e.message}" for e in errors)
    print(document["kind"], document["metadata"]["name"] + (f": {wrong}" if wrong else ""))
