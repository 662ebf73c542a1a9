"""What TensorBoard's own readers find in a folder, as JSON.

    python3 test/e2e/read_events.py PATH_TO_PYTHON_PACKAGES FOLDER
"""
import json
import sys

sys.path.append(sys.argv[1])

from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator  # noqa: E402
from tensorboard.util import tensor_util  # noqa: E402

EVERYTHING = {event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0, event_accumulator.HISTOGRAMS: 0}

run = event_accumulator.EventAccumulator(sys.argv[2], size_guidance=EVERYTHING)
run.Reload()
scalars = {tag: [[event.step, event.value] for event in run.Scalars(tag)] for tag in run.Tags()["scalars"]}
TOTALS = ("min", "max", "num", "sum", "sum_squares")
histograms = {
    tag: [[event.step, {name: getattr(event.histogram_value, name) for name in TOTALS}]
          for event in run.Histograms(tag)]
    for tag in run.Tags()["histograms"]
}
# As its server reads them, for which everything is a tensor of some plugin.
sizes = {"scalars": 0, "text": 0, "histograms": 0}
served = plugin_event_accumulator.EventAccumulator(sys.argv[2], tensor_size_guidance=sizes)
served.Reload()
texts = {
    tag: [[event.step, tensor_util.make_ndarray(event.tensor_proto)[0].decode()] for event in served.Tensors(tag)]
    for tag in (served.PluginTagToContent("text") if "text" in served.ActivePlugins() else [])
}
shown = {  # left edge, right edge and count of every bucket
    tag: [[event.step, tensor_util.make_ndarray(event.tensor_proto).tolist()] for event in served.Tensors(tag)]
    for tag in (served.PluginTagToContent("histograms") if "histograms" in served.ActivePlugins() else [])
}
found = {"scalars": scalars, "served": sorted(served.PluginTagToContent("scalars")), "texts": texts}
print(json.dumps(found | {"histograms": histograms, "shown": shown}))
