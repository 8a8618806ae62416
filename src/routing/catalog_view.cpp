#include "routing/catalog_view.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "routing/catalog_queries.h"

namespace pgweir::routing {

namespace {

void hash_more(std::uint64_t& hash, Bytes text) noexcept {
  for (char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;  // FNV-1a
  }
}

/// Of the bare name when `schema` is empty. A NUL can't be in a name, so the two kinds don't meet.
std::uint64_t name_key(Bytes schema, Bytes name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  if (!schema.empty()) {
    hash_more(hash, schema);
    hash_more(hash, Bytes("\0", 1));
  }
  hash_more(hash, name);
  return hash;
}

std::optional<unsigned> parse_number(Bytes text) noexcept {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<sql::Volatility> parse_volatility(Bytes letter) noexcept {
  if (letter == "b") return sql::Volatility::immutable_builtin;
  if (letter == "i") return sql::Volatility::immutable;
  if (letter == "s") return sql::Volatility::stable;
  if (letter == "v") return sql::Volatility::volatile_;
  return std::nullopt;
}

Bytes text_of(const std::optional<std::string>& field) noexcept {
  return field ? Bytes(*field) : Bytes();
}

}  // namespace

void CatalogView::FlagTable::finish() {
  std::sort(building_.begin(), building_.end(),
            [](const Row& a, const Row& b) { return a.key < b.key; });
  keys_.reserve(building_.size());
  flags_.reserve(building_.size());
  for (const Row& row : building_) {
    if (!keys_.empty() && keys_.back() == row.key) {
      flags_.back() = static_cast<std::uint8_t>(flags_.back() | row.flags);
      continue;
    }
    keys_.push_back(row.key);
    flags_.push_back(row.flags);
  }
  keys_.shrink_to_fit();
  flags_.shrink_to_fit();
  building_ = {};
}

std::optional<std::uint8_t> CatalogView::FlagTable::find(std::uint64_t key) const noexcept {
  const auto found = std::lower_bound(keys_.begin(), keys_.end(), key);
  if (found == keys_.end() || *found != key) return std::nullopt;
  return flags_[static_cast<std::size_t>(found - keys_.begin())];
}

sql::RelationFacts CatalogView::relation(Bytes schema, Bytes name) const noexcept {
  const std::optional<std::uint8_t> found = relations_by_name_.find(name_key(schema, name));
  if (!found) return {};
  const auto has = [flags = unsigned{*found}](unsigned flag) { return (flags & flag) != 0; };
  return {
      .known = true,
      .on_replicas = !has(relation_flag::kOffReplicas),
      .is_view = has(relation_flag::kView),
      .is_sequence = has(relation_flag::kSequence),
      .reads_more = has(relation_flag::kReadsMore),
      .writes_more = has(relation_flag::kWritesMore),
      .hides_volatile = has(relation_flag::kHidesVolatile),
  };
}

sql::Volatility CatalogView::function(Bytes schema, Bytes name, int arguments) const noexcept {
  const std::uint64_t key = name_key(schema, name);
  sql::Volatility worst = sql::Volatility::unknown;
  auto at = std::lower_bound(
      functions_by_name_.begin(), functions_by_name_.end(), key,
      [](const Function& function, std::uint64_t wanted) { return function.key < wanted; });
  for (; at != functions_by_name_.end() && at->key == key; ++at) {
    const bool fits =
        arguments < 0 || (arguments >= at->arguments_min && arguments <= at->arguments_max);
    if (fits) worst = std::max(worst, at->volatility);
  }
  return worst;
}

sql::RelationFacts DoubtfulCatalog::relation(Bytes schema, Bytes name) const noexcept {
  sql::RelationFacts facts = snapshot_->relation(schema, name);
  if (facts.is_view || facts.hides_volatile) return {};
  facts.writes_more = facts.known;
  return facts;
}

bool CatalogView::serializable(Bytes role) const noexcept {
  return all_serializable_ || std::find(serializable_roles_.begin(), serializable_roles_.end(),
                                        role) != serializable_roles_.end();
}

Status CatalogView::add_relation(Bytes schema, Bytes name, Bytes value) {
  const std::optional<unsigned> flags = parse_number(value);
  if (!flags || *flags > 0xFF) {
    return Error(concat({"catalog: flags of relation ", schema, ".", name, " = \"", value,
                         "\": expected a small number"}));
  }
  relations_by_name_.add(name_key({}, name), static_cast<std::uint8_t>(*flags));
  relations_by_name_.add(name_key(schema, name), static_cast<std::uint8_t>(*flags));
  ++relations_;
  return {};
}

Status CatalogView::add_function(Bytes schema, Bytes name, Bytes value, Bytes arguments) {
  const std::optional<sql::Volatility> volatility = parse_volatility(value);
  const std::size_t colon = std::min(arguments.find(':'), arguments.size());
  const std::optional<unsigned> least = parse_number(arguments.substr(0, colon));
  const std::optional<unsigned> most =
      parse_number(arguments.substr(std::min(colon + 1, arguments.size())));
  if (!volatility || !least || !most || *least > 0xFFFF || *most > 0xFFFF) {
    return Error(concat({"catalog: function ", schema, ".", name, " = \"", value, "\", \"",
                         arguments, "\": expected a volatility and least:most arguments"}));
  }
  for (const std::uint64_t key : {name_key({}, name), name_key(schema, name)}) {
    functions_by_name_.push_back(
        {key, static_cast<std::uint16_t>(*least), static_cast<std::uint16_t>(*most), *volatility});
  }
  return {};
}

void CatalogView::finish() {
  relations_by_name_.finish();
  std::sort(functions_by_name_.begin(), functions_by_name_.end(),
            [](const Function& a, const Function& b) { return a.key < b.key; });
  functions_by_name_.shrink_to_fit();
}

Result<std::shared_ptr<const CatalogView>> build_catalog(const CatalogRows& rows,
                                                         std::uint64_t generation) {
  auto view = std::make_shared<CatalogView>();
  view->generation_ = generation;
  for (const auto& row : rows) {
    if (row.size() != 5 || text_of(row[0]).size() != 1) {
      return Error("catalog: a row is not (what, schema, name, value, arguments)");
    }
    const Bytes schema = text_of(row[1]);
    const Bytes name = text_of(row[2]);
    Status added;
    switch (row[0]->front()) {
      case 'r':
        added = view->add_relation(schema, name, text_of(row[3]));
        break;
      case 'f':
        added = view->add_function(schema, name, text_of(row[3]), text_of(row[4]));
        break;
      case 'h':
        view->hides_writes_ = true;
        break;
      case 's':
        if (row[2]) {
          view->serializable_roles_.push_back(*row[2]);
        } else {
          view->all_serializable_ = true;
        }
        break;
      default:
        added = Error(concat({"catalog: a row of kind \"", *row[0], "\": expected r, f, h or s"}));
    }
    if (!added) return added.error();
  }
  view->finish();
  return std::shared_ptr<const CatalogView>(std::move(view));
}

}  // namespace pgweir::routing
