#include "workload.h"

#include "base/text.h"

namespace pgweir::sim {

Workload::Workload(ClientWorld& world, Dice dice, Habits habits, int clients)
    : world_(world), dice_(dice), habits_(habits) {
  for (int i = 0; i < clients; ++i) {
    auto actor = std::make_unique<Actor>();
    actor->client = std::make_unique<SimClient>(world, dice_.fork(), i % 3 == 2 ? "bob" : "alice");
    actor->client->on_rest = [this, raw = actor.get()] { on_rest(*raw); };
    actors_.push_back(std::move(actor));
  }
}

void Workload::start() {
  for (const std::unique_ptr<Actor>& actor : actors_) {
    world_.loop.after(dice_.between(Duration{0}, Duration{20'000}),
                      [raw = actor.get()] { raw->client->connect(); });
  }
}

void Workload::nudge() {
  for (const std::unique_ptr<Actor>& actor : actors_) on_rest(*actor);
}

/// A client that waits for nothing thinks for a while and goes on.
void Workload::on_rest(Actor& actor) {
  if (actor.thinking || actor.last == Last::done) return;
  actor.thinking = true;
  const bool hurries = dice_.chance(500);
  Duration pause =
      dice_.between(Duration{0}, hurries ? Duration{100} : Duration{habits_.think_max_us});
  if (!actor.client->connected()) pause += dice_.between(Duration{1000}, Duration{60'000});
  world_.loop.after(pause, [this, raw = &actor] {
    raw->thinking = false;
    act(*raw);
  });
}

void Workload::act(Actor& actor) {
  SimClient& client = *actor.client;
  if (actor.last == Last::done) return;
  if (!client.connected()) {
    actor.steps_left = 0;
    if (!client.busy_connecting()) client.connect();
    return;
  }
  if (!client.idle()) return;
  if (client.in_transaction()) return act_in_block(actor);
  if (finishing_) return act_last(actor);
  act_freely(actor);
}

void Workload::send(Actor& actor, Unit unit) {
  SimClient& client = *actor.client;
  const bool slow = unit.slow;
  const bool many = unit.many_rows;
  client.send(std::move(unit));
  if (finishing_) return;
  if (slow && dice_.chance(500)) {
    const std::uint64_t answered = client.answered();
    const std::uint64_t connections = client.connections();
    world_.loop.after(dice_.between(Duration{0}, Duration{40'000}),
                      [&client, answered, connections] {
                        if (client.connected() && client.answered() == answered &&
                            client.connections() == connections)
                          client.cancel();
                      });
  }
  if (many && dice_.chance(500))
    client.pause_reading(dice_.between(Duration{1000}, Duration{30'000}));
  if (dice_.chance(habits_.leaves)) {
    const std::uint64_t connections = client.connections();
    world_.loop.after(dice_.between(Duration{0}, Duration{3000}), [this, &client, connections] {
      if (client.connected() && client.connections() == connections)
        client.leave(dice_.chance(300));
    });
  }
}

/// Most blocks read first; some read only.
bool Workload::reads_only(const Actor& actor) { return actor.steps_left > 0 && dice_.chance(500); }

void Workload::act_in_block(Actor& actor) {
  SimClient& client = *actor.client;
  const PlanContext with = client.plan();
  if (client.status() == 'E') {
    if (finishing_ || dice_.chance(700)) return send(actor, plan_end(with, dice_.chance(200)));
    Unit late = without_answers_between([&] { return dice_.chance(500) ? plan_read(with) : plan_write(with); });
    late.must_fail = true;  // 25P02
    return send(actor, std::move(late));
  }
  if (actor.steps_left-- <= 0 || finishing_) return send(actor, plan_end(with, dice_.chance(750)));
  // A block that only reads is to read, and is told off for the rest.
  const auto told_off = [&](Unit unit) {
    if (!with.read_only) return unit;
    unit.may_fail = {"25006", "57014"};
    return unit;
  };
  const bool reads = with.read_only ? dice_.chance(800) : false;
  const std::uint64_t what = reads ? 6 : dice_.below(reads_only(actor) ? 7 : 12);
  switch (what) {
    case 0:
      return send(actor, plan_error(with));
    case 1:
      if (client.block_used() && dice_.chance(400)) return send(actor, plan_set_transaction(with));
      return send(actor, told_off(plan_tracked_setting(with)));
    case 2:
      return send(actor, told_off(plan_hidden_write(with)));
    case 3:
      return send(actor, told_off(plan_copy(with)));
    case 4:
    case 5:
    case 6:
      return send(actor, plan_read(with));
    default: {
      Unit write = told_off(plan_write(with));
      write.must_fail = with.read_only;
      return send(actor, std::move(write));
    }
  }
}

Unit Workload::autocommit_unit(SimClient& client) {
  const PlanContext with = client.plan();
  if (dice_.chance(habits_.writes)) return plan_write(with);
  if (dice_.chance(habits_.hidden_writes * 3)) return plan_hidden_write(with);
  if (dice_.chance(habits_.errors)) return plan_error(with);
  return plan_read(with);
}

/// A unit that is sent as a whole: none that waits for an answer before it goes on.
Unit Workload::without_answers_between(const std::function<Unit()>& plan) {
  Unit unit = plan();
  while (!unit.later.empty() || unit.slow) unit = plan();
  return unit;
}

Unit Workload::pinning_unit(SimClient& client) {
  const PlanContext with = client.plan();
  switch (dice_.below(3)) {
    case 0:
      return plan_other_setting(with);
    case 1:
      return plan_sql_prepare(with);
    default:
      return plan_listen(with);
  }
}

void Workload::act_freely(Actor& actor) {
  SimClient& client = *actor.client;
  const PlanContext with = client.plan();
  if (client.pinned() && dice_.chance(250)) return send(actor, plan_discard(with));
  int draw = dice_.between(0, 999);
  const auto drawn = [&draw](int of) {
    draw -= of;
    return draw < 0;
  };
  if (drawn(habits_.writes)) return send(actor, plan_write(with));
  if (drawn(habits_.hidden_writes)) return send(actor, plan_hidden_write(with));
  if (drawn(habits_.transactions)) {
    actor.steps_left = dice_.between(0, 6);
    return send(actor, dice_.chance(400) ? plan_special_begin(with) : plan_begin(with));
  }
  if (drawn(habits_.pipelines)) {
    // What the units need to know of each other they don't: none begins a block or prepares under a
    // name.
    const bool in_block = dice_.chance(300);
    if (in_block) client.send(without_answers_between([&] { return plan_begin(with); }));
    for (int left = dice_.between(2, 6); left > 0; --left) {
      client.send(without_answers_between([&] { return autocommit_unit(client); }));
    }
    if (in_block) client.send(plan_end(with, dice_.chance(800)));
    if (client.outstanding() == 0) on_rest(actor);
    return;
  }
  if (drawn(habits_.settings)) {
    return send(actor, dice_.chance(100) ? plan_bad_setting(with) : plan_tracked_setting(with));
  }
  if (world_.split && drawn(habits_.keys)) return send(actor, plan_causal_key(with));
  if (world_.tracks_session_state && drawn(habits_.pins)) return send(actor, pinning_unit(client));
  if (!client.sql_prepared().empty() && dice_.chance(200)) {
    const auto which = dice_.below(client.sql_prepared().size());
    const auto [name, tables] = *std::next(client.sql_prepared().begin(), static_cast<std::ptrdiff_t>(which));
    if (dice_.chance(600)) return send(actor, plan_sql_execute(with, name, tables));
    if (dice_.chance(500)) return send(actor, plan_sql_prepare_again(with, name));
    // One behind the other, without an answer between.
    client.send(plan_sql_deallocate(with, name));
    Unit again = plan_sql_prepare(with, name);
    const std::uint32_t means = again.sql_tables;
    client.send(std::move(again));
    if (dice_.chance(500)) client.send(plan_sql_execute(with, name, means));
    if (client.outstanding() == 0) on_rest(actor);
    return;
  }
  if (drawn(habits_.slow)) return send(actor, plan_slow_read(with, 0.001 * dice_.between(1, 60)));
  if (drawn(habits_.big)) return send(actor, plan_big_read(with));
  if (drawn(habits_.copies)) return send(actor, plan_copy(with));
  if (drawn(habits_.several)) return send(actor, plan_several(with));
  if (drawn(habits_.errors))
    return send(actor, dice_.chance(700) ? plan_error(with) : plan_commit_and_fail(with));
  if (drawn(habits_.notifications)) return send(actor, plan_notify(with));
  if (drawn(habits_.leaves)) return client.leave(dice_.chance(500));
  send(actor, plan_read(with));
}

/// A pin is given up, a write and a read still work, and the client goes.
void Workload::act_last(Actor& actor) {
  SimClient& client = *actor.client;
  const PlanContext with = client.plan();
  if (client.pinned()) return send(actor, plan_discard(with));
  if (actor.last == Last::none) {
    if (client.last_error().empty() && actor.wrote_on == client.connections() &&
        actor.wrote_on != 0) {
      actor.last = Last::wrote;
      return send(actor, plan_read(with));
    }
    actor.wrote_on = client.connections();
    return send(actor, plan_write(with));
  }
  if (!client.last_error().empty()) return send(actor, plan_read(with));
  actor.last = Last::done;
  client.leave(true);
}

bool Workload::finished() const noexcept {
  for (const std::unique_ptr<Actor>& actor : actors_) {
    if (actor->last != Last::done) return false;
  }
  return true;
}

std::string Workload::unfinished() const {
  std::string out;
  for (const std::unique_ptr<Actor>& actor : actors_) {
    if (actor->last == Last::done) continue;
    const SimClient& client = *actor->client;
    out += concat({out.empty() ? "" : ", ", client.name(),
                   client.connected() ? " with " : " not connected, with ",
                   std::to_string(client.outstanding()), " unanswered"});
  }
  return out;
}

std::uint64_t Workload::answered() const noexcept {
  std::uint64_t sum = 0;
  for (const std::unique_ptr<Actor>& actor : actors_) sum += actor->client->answered();
  return sum;
}

}  // namespace pgweir::sim
