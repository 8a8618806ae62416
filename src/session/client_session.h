// One client connection, from its startup packet to its end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "io/io.h"
#include "protocol/framer.h"
#include "routing/decide.h"
#include "session/cancel_key.h"
#include "session/causality.h"
#include "session/client_state.h"
#include "session/block_text.h"
#include "session/held_block.h"
#include "session/hints_in_flight.h"
#include "session/hub.h"
#include "session/owed.h"
#include "session/own_settings.h"
#include "session/replication.h"
#include "session/sql_prepared.h"
#include "session/unit.h"

namespace pgweir::auth {
class ClientLogin;
}
namespace pgweir::protocol {
struct ErrorFields;
struct Startup;
struct Parse;
}  // namespace pgweir::protocol

namespace pgweir::session {

class ClientSession final : public io::TransportUser {
 public:
  /// Takes the connection in; `key` is the cancel key's second half (its first is the id).
  ClientSession(Hub& hub, ClientId id, std::unique_ptr<io::Door> door);
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  // For app, all within Pooler::turn().
  void on_turn();
  /// What Hub::admit() had to ask first is known.
  void admitted(Admission admission);
  /// PAM or LDAP has judged the password; `admission` says where the client belongs when it was right.
  void password_judged(const Status& verdict, Admission admission);
  /// The pool's servers have reported: ends the login (PoolContext::welcome is there).
  void welcome();
  /// State welcoming, replication connections: `server` has logged in for this client alone.
  void replicate(ServerSession& server);
  /// State waiting, split databases: what the router needs to know of the unit, as of now.
  const routing::UnitFacts& facts(const routing::ClusterView& cluster);
  /// State waiting: the unit may run on `server`, which is idle and past its checks.
  /// `timeline` is the one that its instance must be on; 0 where the monitor watches that.
  void bind(ServerSession& server, const routing::Route& route, std::uint32_t timeline = 0);
  /// Session pooling and pins: the unit is for the server that the client already holds.
  bool holds_server_for(sql::Target target) const noexcept;
  /// State waiting, unit for the server held: go on with it.
  void resume_on_held(const routing::Route& route);
  /// A FATAL with `why`, then the end. Takes its server down with it when that is in the middle of something.
  void close(const Error& why);
  /// A cancel request came while the client waits for a server: its unit gets 57014 and the client stays.
  void cancel_waiting();
  /// State cancelling: its request has come to its end.
  void cancel_answered() { end(Error("cancel request")); }
  /// SUSPEND of the console: nothing more of the client is read, and what it has sent already waits.
  void suspend(bool on);
  /// State waiting: a NOTICE, so that a person who watches knows why nothing happens.
  void tell(std::string_view notice);

  /// The pool's, with what the session has asked for itself.
  routing::Policy policy() const noexcept;

  ClientState state() const noexcept { return state_; }
  ClientId id() const noexcept { return id_; }
  const CancelKey& cancel_key() const noexcept { return cancel_key_; }
  PoolContext* pool() const noexcept { return pool_; }
  ServerSession* server() const noexcept { return server_; }
  Console* console() const noexcept { return console_.get(); }
  const std::string& user() const noexcept { return user_; }
  const std::string& database() const noexcept { return database_; }
  const io::Transport* transport() const noexcept { return transport_.get(); }
  /// Where the client is: as a trusted proxy says, else at the other end of the connection.
  io::Address peer() const;
  /// The other end of the connection is a proxy, which has told where the client is.
  bool proxied() const noexcept { return proxied_for_ != nullptr; }
  Time connected_at() const noexcept { return connected_at_; }
  /// When the state was entered: how long it has been waiting, idle, in login.
  Time state_since() const noexcept { return state_since_; }
  Time request_at() const noexcept { return request_at_; }
  /// When the transaction, or the unit outside of one, got its server.
  Time transaction_began_at() const noexcept { return transaction_at_; }
  /// The server owes it an answer: it is not the client that keeps the other side waiting.
  bool busy() const noexcept { return in_flight_ != 0 || (replication_ && !replication_->at_rest); }
  /// Why it ended, for the log.
  const std::string& end_reason() const noexcept { return end_reason_; }
  /// As the client was told.
  bool in_transaction() const noexcept;
  /// In one that a server knows of.
  bool server_in_transaction() const noexcept { return status_ != 'I'; }
  bool pinned() const noexcept;
  /// What kind of connection the startup packet asked for.
  Replication replication() const noexcept;
  /// Replication connections: what the server's own startup packet has to say; nullptr for others.
  const ReplicationLink* replication_link() const noexcept { return replication_.get(); }
  const SharedSettings& settings() const noexcept { return settings_; }
  std::string application_name() const;
  std::size_t prepared_count() const noexcept;

  /// The pooler's place for this session, so that it finds it without a look-up; nothing here looks at it.
  void* seat = nullptr;

  // For the server that is bound.
  void deliver(Bytes bytes) noexcept;
  /// A replica's answer is kept back until its first row or its completion, so that it can be asked elsewhere.
  bool holding() const noexcept { return holding_; }
  void end_hold() noexcept;
  /// While holding(): should the replica's connection break now, the unit runs on the primary, not on another replica.
  void give_up_replica() {
    healed_from_ = "57014";
    healed_by_refusal_ = false;
  }
  /// The client has `part` of a long message: nothing else can be said to it until the rest has come.
  void note_part(bool part) noexcept { answer_cut_ = part; }
  /// The rest of the server's answer concerns nobody: the unit will run again.
  bool discarding() const noexcept { return discarding_; }
  void on_complete(ServerSession& server, Answer answer, Bytes tag);
  /// True when the error is the client's to see.
  bool on_error(ServerSession& server, const protocol::ErrorFields& fields);
  void note_failure();
  void tell_restored();
  void look_anew();
  /// True when it says why the client loses its connection too: it is passed on then.
  bool on_unasked_error(ServerSession& server);
  /// The status that the client is told.
  char on_ready(ServerSession& server, char status);
  void on_parameter(ServerSession& server, Bytes name, Bytes value);
  void on_notification();
  void on_flush_answered(ServerSession& server);
  void on_flush_failed(ServerSession& server);
  /// A Sync, or a query behind an error, that the server passes over without an answer.
  void on_unit_skipped();
  void on_rest_swallowed(ServerSession& server);
  void on_settings_brought(ServerSession& server);
  void on_settings_refused(ServerSession& server, const Error& error);
  /// What a replica says that the unit was sent to together with that question.
  void on_position(ServerSession& server, std::optional<tokens::Lsn> replayed, Bytes timeline);
  /// What the server has of this session's; nullopt: it could not say.
  void on_leftovers(std::optional<bool> found);
  void on_block_opened(ServerSession& server, const Error* problem);
  void on_server_drained(ServerSession& server);
  void on_server_lost(ServerSession& server, const Error& why);
  /// Replication connections: a message, or part of one, that is about to be delivered.
  void on_relayed(const protocol::Slice& slice);
  /// The Parse that gave the client this name failed.
  void parse_failed(std::string_view name, const StatementRef& statement);
  void forget_statement(std::string_view name);
  /// The Close of this name was passed over.
  void restore_statement(std::string_view name, StatementRef statement);
  /// A CancelRequest of this client is on its way to the server: its 57014 is the client's to see.
  void cancel_asked() noexcept { cancel_asked_ = true; }

  // io::TransportUser
  void on_connected() noexcept override;
  void on_bytes(Bytes bytes) noexcept override;
  void on_drained() noexcept override;
  void on_closed(const Error& why) noexcept override;

 private:
  /// What is passed over after an error that was answered here: the rest up to Sync, or a whole unit.
  enum class Skip : std::uint8_t { none, to_sync, unit };
  /// Why a client stays on its primary server.
  enum class Pin : std::uint8_t { none, session_state };

  /// What may be left behind on the server that is about to be given back.
  enum class Left : std::uint8_t { nothing, settings, anything };

  void enter(ClientEvent event);
  void take(Bytes bytes);
  void keep(Bytes bytes);
  void work();
  std::size_t work_on(Bytes input);
  void regulate();
  void send_fatal(const Error& why);
  void end(const Error& why);
  bool split() const noexcept;
  bool keeps_server() const noexcept;
  bool on_its_way_back() const noexcept;

  // client_login.cpp
  bool comes_from_proxy() const;
  std::size_t read_proxy_header(Bytes input);
  std::size_t read_startup(Bytes input);
  void start(const protocol::Startup& startup);
  bool take_parameter(std::string_view name, std::string_view value);
  void begin_login();
  void step(const auth::Step& step);
  void authenticated();
  std::size_t read_password(Bytes input);
  std::size_t read_console(Bytes input);

  bool listed_as_ignored(std::string_view name) const;
  /// A reported parameter that stays with its client: the usual ones, and those of track_extra_parameters.
  bool follows(std::string_view name) const;
  void read_dialect();

  void send_welcome(const std::vector<std::pair<std::string, std::string>>& reported);
  bool ask_for_replication(const protocol::Startup& startup);

  // client_replication.cpp
  std::size_t relay(Bytes input);
  void note_relayed(const protocol::Slice& slice);
  void relayed_ready(char status);
  void replication_server_lost();
  void leave_replication();

  // client_collect.cpp: messages while nothing has been sent
  enum class Seen : std::uint8_t {
    part,         ///< more must come
    for_primary,  ///< whatever comes, it is the primary's
    whole,        ///< to be routed as it is
  };
  /// The size of the message at the front of `input`; nullopt: not known yet, or the client broke the protocol.
  [[gnu::always_inline]] std::optional<std::uint64_t> message_size(Bytes input) {
    const std::optional<std::uint64_t> size = protocol::peek_wire_size(input);
    if (size && *size >= protocol::kHeaderSize && *size <= static_cast<std::uint64_t>(hub_.settings().max_packet_size)) {
      return size;
    }
    return refuse_size(size.has_value());
  }
  std::nullopt_t refuse_size(bool known);
  std::size_t collect(Bytes input);
  void begin_unit();
  void unit_complete();
  bool answer_here(char type, Bytes message);
  static constexpr const char* kCancelled = "canceling statement due to user request";
  void refuse_unit(const Error& why);
  std::size_t skip_message(char type, std::uint64_t size, Bytes input);
  std::size_t drop(Bytes input);
  Seen examine(Bytes input);
  Seen examine_message(char type, Bytes body);
  void examine_use(Bytes name, bool well_formed);
  std::shared_ptr<const sql::StatementClass> classify(Bytes text);
  void judge(PreparedStatement& statement);
  bool is_learned(const sql::StatementClass& meaning) const;

  // client_own.cpp: pgweir.* settings
  /// A SHOW or SET of the token that waits for the primary's position.
  struct TokenWait {
    tokens::Ticket ticket = 0;
    Time since{};
  };
  struct OwnState {
    std::string key;
    std::string key_at_login;
    std::optional<config::ConsistencyLevel> level_at_login;
    std::string token_at_login;  ///< not taken yet
    std::optional<TokenWait> token_wait;
    Result<std::string> token{std::string()};  ///< what the SHOW or SET that is being answered has come to
  };
  static bool is_own_front(Bytes input);
  std::optional<std::size_t> answer_own(char type, std::uint64_t size, Bytes input);
  void answer_extended(const OwnOrder& order, Bytes unit);
  void append_own_columns(const OwnOrder& order);
  bool answer_order(const OwnOrder& order, bool with_columns);
  Status check_own(OwnSetting setting, std::string_view value) const;
  Status set_own(OwnSetting setting, std::string_view value);
  Status reset_own(OwnSetting setting);
  void reset_all_own();
  Status take_own_at_login(OwnSetting setting, std::string_view value);
  std::string own_value(OwnSetting setting) const;

  // client_hints.cpp: hints that name a key or a level
  void join_statement(const std::shared_ptr<const sql::StatementClass>& meaning, Bytes text);
  void join_hints(Bytes text);
  void note_hints(Bytes text);
  void note_unread_hints();
  HintsInFlight& hints_in_flight();

  // client_token.cpp: pgweir.token
  bool settle_token(const OwnOrder& order);
  bool settle_token_of_login();
  std::optional<Result<std::string>> token_now(const routing::ClusterView& cluster, tokens::Ticket asked);
  std::optional<Result<std::string>> take_token(const routing::ClusterView& cluster, std::string_view value, tokens::Ticket asked);

  // client_block.cpp: transaction blocks whose BEGIN is held back
  bool block_open() const noexcept { return block_ && block_->open(); }
  bool block_failed() const noexcept { return block_ && block_->state() == BlockState::failed; }
  bool whole_block() const noexcept { return block_open() && block_->route() == BlockRoute::whole; }
  char told_status() const noexcept { return block_open() ? block_->status() : status_; }
  /// In a transaction that a replica has begun.
  bool settled_on_replica() const noexcept { return on_replica_ && status_ != 'I'; }
  std::optional<std::size_t> answer_block(Bytes input);
  void answer_block_messages(char type, Bytes unit, Bytes tag);
  std::optional<BlockRoute> route_for_block(const BlockStart& start) const noexcept;
  bool may_read_in_block(Bytes unit) const;
  void note_portal(char type, Bytes body);
  void open_block(ServerSession& server);
  void fail_block();
  void note_block_read();
  void settle_on_replica(char status);
  void chain_from_replica();
  bool rules_go_forward() const noexcept;
  bool may_lose_block() const noexcept;
  void lose_block();
  std::size_t tell_of_lost_block();
  bool passes_on_replica(char type, Bytes message);
  bool passes_on_replica(const sql::StatementClass& meaning) const;
  bool note_end_on_replica(const sql::StatementClass& meaning) noexcept;
  void refuse_on_replica(char type);

  // client_send.cpp: messages towards the server that is bound
  bool translates() const noexcept;
  bool tracks() const noexcept;
  StatementRef parsed(const protocol::Parse& parse);
  StatementRef find_statement(Bytes name) const;
  void begin_on(ServerSession& server, const routing::Route& route);
  void settings_brought();
  void run_unit();
  void run_held_unit();
  std::size_t stream(Bytes input);
  bool may_be_replicas() const noexcept;
  void end_flushed_part(ServerSession& server);
  void send_own_sync(ServerSession& server);
  bool next_unit_waits(Bytes input);
  void begin_long_message(char type, std::uint64_t size);
  void expect(Answer answer, Fate fate, StatementRef statement = nullptr, std::string text = {});
  void count_route();
  void unit_sent(Answer answer);
  void unit_replaced(std::string text);
  void note_unit_sent();
  void send_message(char type, Bytes message);
  void send_query(Bytes message);
  void open_unit();
  void send_parse(Bytes message);
  void send_deallocating(const protocol::Parse& parse, const std::string& name, const StatementRef& statement);
  void send_failing(const Error& why);
  StatementRef statement_there(Bytes name);
  void send_bind(Bytes message);
  void send_describe(Bytes message);
  void send_close(Bytes message);
  void send_execute(Bytes message);
  void protocol_violation(std::string_view what);

  // client_answers.cpp
  void unit_answered(ServerSession& server, char status);
  void note_refused_texts();
  void run_again();
  void leave_server();

  // client_consistency.cpp
  void note_sent(const std::shared_ptr<const sql::StatementClass>& meaning, Bytes text);
  void note_effects(const sql::StatementClass& meaning);
  std::shared_ptr<const sql::StatementClass> executed(const sql::StatementClass& meaning);
  void note_prepared(const sql::StatementClass& meaning);
  void note_ddl();
  void note_session_steps(const sql::StatementClass& meaning, Bytes text);
  void note_setting(const sql::Statement& statement);
  void note_set_config(Bytes text);
  void note_unconfirmed(std::string_view name, std::optional<std::string> value);
  void confirm_settings(ServerSession& server);
  void note_opaque();
  void note_writes(const sql::TableSet& tables);
  void mark_writes();
  void drop_writes();
  void end_ddl() noexcept;
  void note_seen();
  void note_read_on(const ServerSession& replica);
  bool may_show_unmarked() const noexcept;
  void settle(tokens::Need& need) const noexcept;
  void follow_primary(tokens::Need& need, std::uint64_t& identity, const routing::ClusterView& cluster);
  void follow_primary(Causality& causality, const routing::ClusterView& cluster);
  void see_latest(Causality& causality);
  Causality& causality() noexcept { return key_ ? *key_ : own_; }
  /// Of the unit that waits to be routed.
  Causality& causality_of_unit() noexcept;
  config::ConsistencyLevel session_level() const noexcept;
  template <class Note>
  void for_whom_it_counts(Note&& note);
  void pin();

  Hub& hub_;
  ClientId id_;
  CancelKey cancel_key_;
  ClientState state_ = ClientState::startup;
  char status_ = 'I';                 ///< as the last ReadyForQuery of a primary said
  bool holding_ = false;
  bool discarding_ = false;
  bool behind_ = false;               ///< a replica that was asked was not far enough for the unit
  bool block_reads_ = false;          ///< the unit is a read that a block whose BEGIN is held back may have done on a replica
  bool on_replica_ = false;           ///< server_ is a replica's
  bool proxy_header_due_ = false;     ///< what a proxy says of the client comes before his own words
  bool settings_pending_ = false;     ///< the server's answer to our settings decides whether the unit goes out
  bool unit_open_ = false;            ///< extended messages have been sent and no Sync yet
  bool leaving_ = false;              ///< all is answered: the server is given back in the turn
  bool run_again_ = false;            ///< in the turn: the unit waits for a server anew
  bool counted_ = false;              ///< the route of the unit that is about to be sent has been counted
  bool again_ = false;                ///< there may be more to do with the input than its last look found
  bool working_ = false;              ///< work_on() is on the stack
  bool starving_ = false;             ///< the last look at the input found too little of it
  bool looking_ahead_ = false;        ///< the unit behind the one under way is being looked at
  bool cleared_ = false;              ///< it was, and is the primary's
  bool ready_after_drop_ = false;
  bool answer_cut_ = false;           ///< the client has part of a message and will not get the rest
  bool rolled_back_ = false;          ///< the last completion was a ROLLBACK
  bool transaction_ended_ = false;    ///< the last completion was a COMMIT or ROLLBACK
  bool ended_within_ = false;         ///< and more of the same unit came behind it
  bool barrier_ = false;              ///< nothing more is sent before what is under way has been answered
  bool pinned_since_discard_ = false; ///< session state was made behind a DISCARD ALL that is under way
  bool ahead_is_whole_ = false;       ///< looking_ahead_: nothing more belongs to that unit
  bool resetting_ = false;            ///< DISCARD ALL ran in this unit
  bool healed_by_refusal_ = false;
  bool flush_answered_ = false;
  bool may_leave_state_ = false;      ///< something ran there that can't be seen from outside: DO, CALL, a function
  bool asking_leftovers_ = false;
  Left left_ = Left::nothing;
  Skip skip_ = Skip::none;
  bool flight_controls_transaction_ = false;
  bool unit_failed_ = false;
  bool cancel_asked_ = false;
  bool paused_ = false;
  bool suspended_ = false;
  bool mirrored_pause_ = false;       ///< the server is paused because our peer is slow
  bool may_commit_ = false;           ///< something in flight may commit and then fail
  bool several_in_flight_ = false;    ///< a simple query of several statements
  bool unnoted_ = false;              ///< something was sent while the database was not split for this pool
  Pin pin_ = Pin::none;
  std::uint8_t reruns_ = 0;
  std::uint32_t in_flight_ = 0;       ///< ReadyForQuery messages that are owed to the client
  std::uint64_t pass_left_ = 0;       ///< of a long message that goes to the server as it comes
  std::uint64_t drop_left_ = 0;       ///< of a long message that nobody wants

  std::unique_ptr<io::Transport> transport_;
  ServerSession* server_ = nullptr;   ///< working for this client
  ServerSession* home_ = nullptr;     ///< kept between units: session pooling, pins
  PoolContext* pool_ = nullptr;
  std::string input_;                 ///< bytes not yet done with; a unit on a replica stays until it can't run again
  std::size_t examined_ = 0;          ///< of input_: messages looked at for the unit being collected
  std::size_t unit_bytes_ = 0;        ///< of input_: what was sent to a replica
  std::string held_;                  ///< the answer kept back
  std::string scratch_;
  std::unique_ptr<HeldBlock> block_;  ///< made for the first one
  std::unique_ptr<Unit> unit_;        ///< split databases only
  SharedSettings settings_;
  SharedSettings literals_of_;        ///< the settings_ of which literals_ were made
  SharedSettings literals_;           ///< those of them that may change what a literal means
  SharedSettings startup_settings_;   ///< what the client asked for at login: DISCARD ALL leads back there
  struct UnconfirmedSetting {
    std::string name;
    std::optional<std::string> value;  ///< nullopt leads back to what the client asked for at login
    std::uint64_t unit = 0;            ///< the one that sets it, counted by units_sent_
  };
  std::vector<UnconfirmedSetting> unconfirmed_settings_;  ///< until their transaction has ended
  std::uint64_t units_sent_ = 0;
  std::vector<std::string> restored_;  ///< led back there: the client is told, as the server speaks of its own default
  std::map<std::string, StatementRef, std::less<>> statements_;
  StatementRef unnamed_;
  std::unique_ptr<SqlPrepared> sql_prepared_;  ///< null: nothing
  /// What names meant before a unit on a replica changed them, in order: it may have to run again.
  std::vector<std::pair<std::string, StatementRef>> renamed_;
  std::map<std::string, StatementRef, std::less<>> portals_;  ///< named ones
  StatementRef portal_;               ///< of the unnamed one
  sql::Dialect dialect_;

  // Consistency.
  Causality own_;
  std::shared_ptr<Causality> key_;    ///< takes the place of own_ while a causal key is set
  std::optional<config::ConsistencyLevel> level_;  ///< SET pgweir.read_consistency; else the pool's
  std::unique_ptr<OwnState> own_state_;
  std::unique_ptr<HintsInFlight> hints_in_flight_;  ///< null: none
  NodeId last_node_;
  sql::Target last_target_ = sql::Target::primary;
  routing::Reason last_reason_ = routing::Reason::not_split;
  std::shared_ptr<DatabaseMarks> entered_;    ///< where the open transaction is counted as a writer
  std::shared_ptr<DatabaseMarks> ddl_marks_;  ///< where its DDL is counted
  sql::TableSet writes_;              ///< of the open transaction, not marked yet
  sql::TableSet reads_;               ///< of what is in flight on the primary
  std::optional<sql::Shape> doubted_;  ///< in the open transaction; all zero for several shapes
  std::string healed_from_;           ///< SQLSTATE with which a replica refused the unit: it is the primary's now
  tokens::Lsn check_;                 ///< what the replica is asked for together with the unit; 0: nothing
  Duration wait_there_{};             ///< with it: how long the replica waits until it is there; 0: not at all
  std::uint32_t check_timeline_ = 0;  ///< what its timeline must be then; 0: any
  NodeId lost_replica_;               ///< it broke off while working on this unit

  std::unique_ptr<auth::ClientLogin> login_;
  std::unique_ptr<Console> console_;
  std::unique_ptr<ReplicationLink> replication_;  ///< replication connections only
  std::unique_ptr<Admission> admission_;  ///< until the login has ended
  std::string user_;
  std::string database_;
  std::unique_ptr<io::Address> proxied_for_;  ///< null: the connection's own peer
  std::string end_reason_;
  Time connected_at_{};
  Time state_since_{};
  Time request_at_{};
  Time query_at_{};
  Time transaction_at_{};
};

}  // namespace pgweir::session
