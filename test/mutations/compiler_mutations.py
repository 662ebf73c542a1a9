"""Bugs to put into the compiler, the mathematics of layouts and the nouns, one at a time.

Each leaves plans that are legal and train alike: what is worse is that they take more memory, move more bytes or take
more time. Laws of losses see none of them.
"""

from mutations import Mutation

COMPILER = "compiler_test"
SBP = "sbp_test"
CORE = "oneflow_core_test"


def compiler(name, file, text, by, tests, says="", unit=""):
    return Mutation(name, "compiler/" + file, text, by, tests, says or r"FAILED", COMPILER, unit)


def sbp(name, file, text, by, tests, says="", program=SBP):
    return Mutation(name, "sbp/" + file, text, by, tests, says or r"FAILED", program)


RINGS = [
    compiler("a ring that fetches everything at once", "passes/ring_attention.cc", "if (ends.size() > kRingAhead)",
             "if (false)", "RingAttentionTest.*"),
    compiler("parts of a ring that are added in narrow types", "passes/ring_attention.cc",
             "full.push_back(Cast(value, DType::kFloat32, like));", "full.push_back(value);", "RingAttentionTest.*"),
    compiler("a ring that goes round in spite of a window", "ring.cc",
             "farthest = std::min(farthest, (window - 2 + chunk) / chunk);", "(void)chunk;", "RingTest.*"),
    compiler("rings along any axis", "select/candidates.cc", "is_sequence(axis) && !is_left_out", "!is_left_out",
             "CandidatesTest.*"),
]

CREDITS = [
    compiler("solved credits that stop 2% short of the best period", "plan/solve_credits.cc",
             "period.seconds <= target * (1 + kSame)",
             "period.seconds <= target * 1.02", "SolveCreditsTest.*"),
    compiler("a slot that is not given back", "plan/solve_credits.cc", "while (enough - too_few > 1)",
             "while (enough - too_few > 2)",
             "SolveCreditsTest.*"),
    compiler("the dearest register gets the slot", "plan/solve_credits.cc", "price(wait.reg) < price(cheapest)",
             "price(wait.reg) > price(cheapest)",
             "SolveCreditsTest.*"),
    compiler("the cheapest register gives slots back first", "plan/solve_credits.cc",
             "bytes_.of_one[a] > bytes_.of_one[b]",
             "bytes_.of_one[a] < bytes_.of_one[b]", "SolveCreditsTest.*"),
    compiler("a deadlock broken by the dearest slot", "plan/enough_slots.cc", "price(wait.reg) < price(cheapest)",
             "price(wait.reg) > price(cheapest)",
             "EnoughSlotsTest.*"),
    compiler("neighbours of a pipeline that take turns", "plan/credits.cc",
             "credits = std::max(credits, 1 + distance);", "", "CreditsTest.*"),
    compiler("nothing is read ahead", "plan/credits.cc", "return ahead ? 2 : 1;", "return 1;",
             "CreditsTest.*:BuildPlanTest.*"),
    compiler("gradients that travel before activations", "plan/credits.cc", "urgency = chain.gradients ? 0 : 4;",
             "urgency = 4;",
             "CreditsTest.*:ChainsTest.*:BucketsTest.*:CallOrderTest.*:BuildPlanTest.*"),
    compiler("updates that are stored in their turn", "plan/chains.cc",
             "return order.kind[after] == OpKind::kStore;", "return false;", "OffloadTest.*"),
    compiler("the least urgent call first", "plan/call_order.cc",
             "const std::pair<int, int> item(-loads_[actor].priority, actor);",
             "const std::pair<int, int> item(0, actor);", "CallOrderTest.*"),
]

MEMORY = [
    compiler("workspaces of two actors side by side", "plan/packing.cc",
             "return a.actor == b.actor && a.first <= b.last && b.first <= a.last;",
             "return a.first <= b.last && b.first <= a.last;", "PackTest.*"),
    compiler("orders of claims that are not improved", "plan/packing.cc", "while (!enough() && tries < kMostTries) {",
             "while (!enough() && tries < 0) {",
             "PackTest.*"),
    compiler("free memory that stays in pieces", "plan/packing.cc", "if (before + room == begin) {",
             "if (before + room < 0) {", "PackTest.*"),
    compiler("what is free and fits worst is taken", "plan/packing.cc",
             "const auto fit = by_size_.lower_bound({size, 0});",
             "auto fit = by_size_.lower_bound({size, 0});\n    if (fit != by_size_.end()) fit = "
             "std::prev(by_size_.end());", "PackTest.*"),
    compiler("nodes in the order in which they were made", "plan/node_order.cc", "return better ? found : given;",
             "return better && given.empty() ? found : given;", "NodeOrderTest.*"),
    compiler("registers that live until the step ends", "plan/lifetimes.cc",
             "if (IsOnClock(act)) return {tick_[position_[act]] + 1 + reading.last_instruction, true};",
             "if (IsOnClock(act)) return {kNever, true};", "PlanMemoryTest.*:PlanTextTest.*"),
    compiler("loads that take turns within a step only", "plan/direct_order.cc",
             "has(b.in_step, a) && has(a.in_last_step, b)", "has(b.in_step, a)", "MemoryCheckTest.Loads*"),
    compiler("units that wait for none of the step before", "passes/offload.cc",
             "if (last != k) AddTo(units[k].loads, &Node::after_last, units[last].left);", "(void)last;",
             "OffloadTest.Units*"),
    compiler("backward in one piece", "passes/offload.cc",
             "std::vector<ValueId> waits = MadeBy(units[k - 1].last);", "std::vector<ValueId> waits;",
             "OffloadTest.BackwardGoes*"),
    compiler("a memory limit that counts what is computed again", "select/memory_demand.cc",
             "if (IsBackward(node) && !reads_again)",
             "if (IsBackward(node) && (!reads_again || true))", "MemoryLimitTest.*:SelectSbpTest.*:MemoryDemandTest.*"),
    compiler("a clone that keeps as much as it frees", "passes/recompute.cc", "      StartLater(piece);\n", "",
             "RecomputeTest.*"),
    compiler("clones that save nothing", "passes/recompute.cc", "      DropWhatSavesNothing(piece);\n", "",
             "RecomputeTest.*"),
    compiler("panels of both directions through all of forward", "passes/pack_once.cc", "if (micro_batches_ == 1 && ",
             "if (micro_batches_ < 0 && ", "PackOnceTest.*"),
]

BYTES = [
    sbp("gradients that travel one by one", "boxing_price.cc",
        "kBucketTimes * (slowest.alpha_s + topology.device().act_s)",
        "0.01 * (slowest.alpha_s + topology.device().act_s)", "BucketsTest.*", program=COMPILER),
    sbp("buckets of what a transfer's latency alone allows", "boxing_price.cc",
        "(slowest.alpha_s + topology.device().act_s)", "slowest.alpha_s", "BucketsTest.*", program=COMPILER),
    compiler("all copies of variables in one bucket", "plan/buckets.cc",
             "        BucketBytes(way.first, way.second, topology_), boxings, [&](NodeId id) { return "
             "first_reader_[id]; },",
             "        0 * BucketBytes(way.first, way.second, topology_), boxings, [&](NodeId id) { return "
             "first_reader_[id]; },", "BucketsTest.*"),
    compiler("weights that are all gathered at once", "passes/gather_weights.cc",
             "if (before >= 0) line.unit.after = line.ends[before];", "", "GatherWeightsTest.*"),
    compiler("weights of the next micro-batch that are gathered at once", "passes/gather_weights.cc",
             "graph_.node(boxing).after_last = line.ends[before];", "graph_.node(boxing).after_last.clear();",
             "GatherWeightsTest.*"),
    compiler("backward that runs ahead of reductions", "passes/reduce_gradients.cc",
             "for (int unit = kAhead; unit < units; ++unit)", "for (int unit = 99; unit < units; ++unit)",
             "ReduceGradientsTest.*"),
    compiler("memory of many values with all its holes", "plan/packing.cc", "near > kMostLooksOnce ||", "true ||",
             "PackTest.*"),
    compiler("a cap whose first fit is taken", "lower/memory_cap.cc", "kMostRefined = 30;", "kMostRefined = 0;",
             "MemoryCapTest.OfLayers*"),
    compiler("two ways that begin alike share no step", "passes/insert_boxing.cc",
             "if (*graph_.value(known).dist == to) return known;",
             "if (to.sbp.size() > 99) return known;", "InsertBoxingTest.*"),
    compiler("addends of a stage that travel one by one", "passes/group_sums.cc",
             "if (place == *node.placement || group.size() == 1) {", "if (true) {", "GroupSumsTest.*"),
    sbp("the farthest copy is read", "boxing_geometry.cc", "if (distance < nearest) best",
        "if (distance > nearest) best", "BoxingTest.*"),
    sbp("the first dimension is always the one to split", "boxing_path.cc",
        "      for (int d = 0; d < shape_.rank(); ++d) {\n        if (same_dim_",
        "      for (int d = 0; d < 1; ++d) {\n        if (same_dim_", "BoxingPathTest.*"),
    sbp("no hierarchical all-gather", "boxing_path.cc",
        "        Consider(SplitAlong(to, inner, d), nullptr);\n      }\n    }", "      }\n    }", "BoxingPathTest.*"),
    sbp("no hierarchical reduce-scatter", "boxing_path.cc",
        "        Consider(SplitAlong(from, inner, d), nullptr);\n      } else if (sums) {",
        "      } else if (sums) {", "BoxingPathTest.*"),
    sbp("cards that each transfer has alone", "boxing_price.cc",
        "for (const auto& [host, seconds] : cards_) busiest = std::max(busiest, seconds);", "",
        "BoxingPriceTest.*:BoxingPathTest.*"),
    sbp("an all-gather that is an exchange", "collective.cc",
        "if (before.is_split() && after.is_broadcast()) return Collective::kAllGather;", "", "CollectiveTest.*"),
    sbp("places that look alike whatever their processes", "place_pairs.cc",
        "description.push_back(process_number(topology_.ProcessOf(rank)));", "", "PlacePairsTest.*"),
]

TIME = [
    compiler("outputs alone do not share work", "node_view.cc",
             "        std::any_of(layout.outputs.begin(), layout.outputs.end(), split)) {",
             "        false) {", "CostModelTest.*:NodeViewTest.*"),
    compiler("a boxing that writes for nothing", "select/cost_model.cc",
             "seconds + written * (1 / device_.memory_bytes_per_s)", "seconds", "CostModelTest.*"),
    compiler("an act that begins for nothing", "select/cost_model.cc",
             "BoxingSeconds(type, from, to, topology_) + device_.act_s", "BoxingSeconds(type, from, to, topology_)",
             "CostModelTest.*"),
    compiler("a stage half as slow again to save bytes", "passes/placement/forward.cc",
             "constexpr double kBalanceSlack = 0.15;", "constexpr double kBalanceSlack = 0.5;",
             "PlaceNodesTest.*"),
    compiler("weights that are cast in each micro-batch", "passes/assign_rates.cc",
             "node.rate = varies[id] ? Rate::kMicroBatch : Rate::kStep;",
             "node.rate = varies[id] || ops_cast(node) ? Rate::kMicroBatch : Rate::kStep;".replace(
                 "ops_cast(node)", 'node.op == "cast"'),
             "AssignRatesTest.*:MixedPrecisionTest.*"),
    compiler("elementwise ops that only fuse with what is next to them", "passes/fuse_elementwise.cc",
             "constexpr int kMostBetween = 16;", "constexpr int kMostBetween = 1;",
             "FuseElementwiseTest.*"),
    compiler("a weight that is packed for each of its products", "passes/pack_weights.cc",
             "if (is_new) known->second = MakePacked", "if (true) known->second = MakePacked",
             "PackWeightsTest.*"),
    compiler("one convolution of rows in blocks", "passes/channel_blocks.cc", "saved_[group] -= Bytes(id);",
             "saved_[group] -= Bytes(id) / 4;", "ChannelBlocksTest.*"),
    compiler("a greedy schedule that tries one policy", "schedule/greedy.cc",
             "for (const ListPolicy& policy : kPolicies) consider(",
             "for (const ListPolicy& policy : {kPolicies[0]}) consider(", "GreedyScheduleTest.*"),
    compiler("weights' gradients as soon as they can", "schedule/list_scheduler.cc",
             "return arrives < now + policy_.patience * seconds ? std::nullopt : weight;",
             "return arrives < now ? std::nullopt : weight;", "GreedyScheduleTest.*"),
    compiler("a local search that leaves both ends of a boxing", "select/local_search.cc",
             "  for (int value = 0; value < graph_.num_values() && !spent(); ++value) gained = MoveBoxedEnds(value) || "
             "gained;\n", "",
             "LocalSearchTest.*:SearchTest.*"),
    compiler("a bound that is taken for proof too soon", "select/core_search.cc",
             "exact_ = bound_ >= seconds_ * (1 - kRounding);", "exact_ = bound_ >= seconds_ * 0.98;",
             "SearchTest.*:SelectSbpTest.*"),
    compiler("an elimination that keeps the first of two options", "select/elimination.cc",
             "if (seconds < least) least = seconds, best = domain[i];",
             "if (seconds < least * 0.98) least = seconds, best = domain[i];", "EliminationTest.*:SearchTest.*"),
    Mutation("an op that says nothing of its work has none", "oneflow_core/op.cc",
             "elements += static_cast<double>(output.shape.count());", "", "OpsTest.*", r"FAILED", CORE),
    Mutation("a temporary for each step", "oneflow_core/elementwise.cc", "free.push_back(places.of[value.index]);", "",
             "ElementwiseTest.*", r"FAILED", CORE),
]

PLANS = RINGS + CREDITS + MEMORY + BYTES + TIME
