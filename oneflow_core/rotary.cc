#include "oneflow_core/rotary.h"

#include <algorithm>
#include <cmath>

namespace oneflow {
namespace {

constexpr double kTwoPi = 6.283185307179586;

struct Scaling {
  double theta, factor, context;  // context: what the model was trained on
  double width, length;
};

std::vector<double> Plain(double theta, double width) {
  std::vector<double> inverse;
  for (int i = 0; 2 * i < static_cast<int>(width); ++i) inverse.push_back(std::pow(theta, -2.0 * i / width));
  return inverse;
}

std::vector<double> Dynamic(const Scaling& s) {
  const double longer = std::max(s.length / s.context, 1.0);
  const double grown = s.factor * longer - (s.factor - 1);
  return Plain(s.theta * std::pow(grown, s.width / (s.width - 2)), s.width);
}

// A pair that turns `rotations` times within the context has about this index.
double PairOf(const Scaling& s, double rotations) {
  return s.width * std::log(s.context / (kTwoPi * rotations)) / (2 * std::log(s.theta));
}

std::vector<double> Yarn(const Scaling& s, const AttrMap& attrs) {
  const double low = std::max(std::floor(PairOf(s, attrs.Double("beta_fast", 32))), 0.0);
  const double high = std::min(std::ceil(PairOf(s, attrs.Double("beta_slow", 1))), s.width - 1);
  std::vector<double> inverse = Plain(s.theta, s.width);
  for (size_t i = 0; i < inverse.size(); ++i) {
    const double span = high > low ? high - low : 0.001;
    const double ramp = std::clamp((static_cast<double>(i) - low) / span, 0.0, 1.0);
    inverse[i] *= (1 - ramp) + ramp / s.factor;
  }
  return inverse;
}

std::vector<double> Llama3(const Scaling& s, const AttrMap& attrs) {
  const double low = attrs.Double("low_frequency", 1), high = attrs.Double("high_frequency", 4);
  std::vector<double> inverse = Plain(s.theta, s.width);
  for (double& frequency : inverse) {
    const double rotations = s.context * frequency / kTwoPi;  // within the context
    const double kept = std::clamp((rotations - low) / (high - low), 0.0, 1.0);
    frequency *= (1 - kept) / s.factor + kept;
  }
  return inverse;
}

}  // namespace

const std::vector<std::string> kRotaryScalings = {"none", "linear", "dynamic", "yarn", "llama3"};

RotaryAngles RotaryAnglesOf(const AttrMap& attrs, int64_t width, int64_t length) {
  const std::string scaling = attrs.String("scaling", "none");
  const auto positions = static_cast<double>(length);
  const Scaling s = {attrs.Double("theta", 10000), attrs.Double("factor", 1),
                     attrs.Double("original_context", positions), static_cast<double>(width), positions};
  std::vector<double> inverse = scaling == "dynamic"  ? Dynamic(s)
                                : scaling == "yarn"   ? Yarn(s, attrs)
                                : scaling == "llama3" ? Llama3(s, attrs)
                                                      : Plain(s.theta, s.width);
  RotaryAngles angles;
  if (scaling == "yarn") {
    const double given = attrs.Double("attention_factor");
    angles.amplitude = static_cast<float>(given > 0 ? given : 0.1 * std::log(std::max(s.factor, 1.0)) + 1);
  }
  for (const double frequency : inverse) {
    angles.inverse.push_back(static_cast<float>(scaling == "linear" ? frequency / s.factor : frequency));
  }
  return angles;
}

}  // namespace oneflow
