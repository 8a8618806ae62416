// pgweir.token: what a session has written and seen, as a text that the application carries to another session, of this process or of
// any other in front of the same cluster.
//
//   session A                         primary                          session B
//   INSERT … COMMIT ────────────────► committed
//   SHOW pgweir.token ── capture ───► its position  ─► "7312…:1:16/B374D848"
//                                                        └── cookie ──► SET pgweir.token = '7312…:1:16/B374D848'
//                                                                       reads need a replica that has replayed 16/B374D848
//
// Both may have to wait for a capture: SHOW because what was just committed has no position yet, SET because another process may know a
// later position than this one. The message stays at the front of the input meanwhile, and is looked at again with each answer.
#include <algorithm>

#include "base/text.h"
#include "session/client_session.h"
#include "session/own_settings.h"
#include "tokens/carried_token.h"

namespace pgweir::session {

/// Whether the order about the token can be answered now: its outcome is in own_state_->token then. Otherwise on_turn() follows.
bool ClientSession::settle_token(const OwnOrder& order) {
  if (!own_state_) own_state_ = std::make_unique<OwnState>();
  if (order.what == OwnOrder::What::reset) return true;
  std::optional<TokenWait>& wait = own_state_->token_wait;
  std::optional<Result<std::string>> outcome;
  if (const routing::ClusterView* cluster = hub_.cluster_view(*this); cluster && cluster->identity != 0) {
    const tokens::Ticket asked = wait ? wait->ticket : 0;
    outcome = order.what == OwnOrder::What::show ? token_now(*cluster, asked) : take_token(*cluster, order.value, asked);
  }
  const Duration patience = hub_.settings().query_wait_timeout;
  if (!outcome && wait && patience > Duration{} && hub_.now() - wait->since >= patience) {
    outcome = Error("08006", concat({"parameter \"", to_string(order.setting), "\": the primary did not tell its position within query_wait_timeout"}));
  }
  if (outcome) {
    own_state_->token = *std::move(outcome);
    wait.reset();
    return true;
  }
  if (!wait) wait = TokenWait{pool_->database->captures->mark(), hub_.now()};
  hub_.wants_capture(*this, patience > Duration{} ? wait->since + patience : kNever);
  return false;
}

/// One that came in the startup packet counts before anything else does. False: it has to wait, or the client is gone.
bool ClientSession::settle_token_of_login() {
  if (own_state_->token_at_login.empty()) return true;
  if (!settle_token({OwnOrder::What::set, OwnSetting::token, own_state_->token_at_login})) return false;
  own_state_->token_at_login.clear();
  if (own_state_->token) return true;
  close(own_state_->token.error());
  return false;
}

/// The text that covers all that the session, or its causal key, has written and seen; empty when that is nothing. nullopt: a capture
/// has to tell, which `asked` is the ticket of when it is under way.
std::optional<Result<std::string>> ClientSession::token_now(const routing::ClusterView& cluster, tokens::Ticket asked) {
  Causality& all = causality();
  if (key_) pool_->database->marks->keys.settle_writes_of_any(all);
  follow_primary(all, cluster);
  follow_primary(all.doubt.need, all.doubt.identity, cluster);
  settle(all.need);
  settle(all.doubt.need);
  tokens::Need need = all.need;
  need.join(all.doubt.need);
  need.join({.lsn = std::max(all.seen, all.seen_elsewhere), .pending = 0});
  if (asked != 0) {
    const tokens::Need captured = pool_->database->captures->need(asked);
    if (captured.pending != 0) return std::nullopt;
    // What is pending now, others of the key have added since.
    need.pending = 0;
    need.join(captured);
  } else if (need.pending != 0 || unnoted_ || all.unrecorded || !all.read_is_covered()) {
    return std::nullopt;
  }
  if (need.lsn == tokens::Lsn{}) return std::string();
  return tokens::to_string({cluster.system_id, {cluster.timeline, need.lsn}});
}

/// The session, or its causal key, owes its reads what the token says from now on, beside what it owed before.
std::optional<Result<std::string>> ClientSession::take_token(const routing::ClusterView& cluster, std::string_view value, tokens::Ticket asked) {
  if (value.empty()) return std::string();
  const Result<tokens::CarriedToken> carried = tokens::parse_carried_token(value);
  if (!carried) return refused_value(OwnSetting::token, value, carried.error().text());
  const tokens::Need captured = asked != 0 ? pool_->database->captures->need(asked) : tokens::Need{};
  const routing::NodeView* const primary = cluster.find(cluster.primary);
  const tokens::TokenVerdict verdict = tokens::judge(*carried, {.system_id = cluster.system_id,
                                                                .timeline = cluster.timeline,
                                                                .insert = std::max(captured.lsn, primary ? primary->replayed : tokens::Lsn{}),
                                                                .first = cluster.identity_lsn,
                                                                .geometry = cluster.geometry});
  switch (verdict.what) {
    case tokens::TokenVerdict::What::taken:
      follow_primary(causality(), cluster);
      causality().need.join({.lsn = verdict.lsn, .pending = 0});
      return std::string();
    case tokens::TokenVerdict::What::ahead:
      if (asked == 0 || captured.pending != 0) return std::nullopt;
      break;
    case tokens::TokenVerdict::What::refused: break;
  }
  return refused_value(OwnSetting::token, value, verdict.why);
}

}  // namespace pgweir::session
