#include "session/causality.h"

#include <algorithm>

namespace pgweir::session {

bool is_causal_key(std::string_view key) noexcept {
  const auto printable = [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; };
  return key.size() <= CausalKeys::kKeyBytesMax && std::all_of(key.begin(), key.end(), printable);
}

std::shared_ptr<Causality> CausalKeys::get(std::string_view key, tokens::CaptureLog& captures) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    by_age_.splice(by_age_.end(), by_age_, found->second);
    return found->second->state;
  }
  make_room(captures);
  by_age_.push_back({std::string(key), std::make_shared<Causality>(forgotten_)});
  by_key_.emplace(by_age_.back().key, std::prev(by_age_.end()));
  return by_age_.back().state;
}

void CausalKeys::make_room(tokens::CaptureLog& captures) {
  for (auto oldest = by_age_.begin(); by_age_.size() >= keys_max_ && oldest != by_age_.end();) {
    if (oldest->state.use_count() > 1) {
      ++oldest;
      continue;
    }
    // A capture after this moment covers all that the key has written or seen.
    if (!oldest->state->need.nothing() || oldest->state->seen.value != 0 || oldest->state->unrecorded || !oldest->state->read_is_covered() ||
        !oldest->state->doubt.need.nothing()) {
      forgotten_.need.join({.lsn = {}, .pending = captures.mark()});
    }
    forgotten_.last_write_at = std::max(forgotten_.last_write_at, oldest->state->last_write_at);
    by_key_.erase(oldest->key);
    oldest = by_age_.erase(oldest);
  }
}

}  // namespace pgweir::session
