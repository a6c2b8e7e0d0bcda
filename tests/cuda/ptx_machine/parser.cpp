// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "parser.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>

#include "findings.h"
#include "operations.h"

namespace ptx {
namespace {

using Text = std::string_view;

// ---- Text

constexpr Text kBlanks = " \t\r\n";
constexpr Text kDigits = "0123456789";

Text trimmed(Text text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == Text::npos ? Text() : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Takes off what stands before the first blank.
Text take_word(Text& text) {
  const Text word = text.substr(0, text.find_first_of(kBlanks));
  text = trimmed(text.substr(word.size()));
  return word;
}

// Between the commas that stand in no braces or brackets.
std::vector<Text> parts_of(Text list) {
  std::vector<Text> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    depth += list[i] == '{' || list[i] == '[';
    depth -= list[i] == '}' || list[i] == ']';
    if (list[i] != ',' || depth > 0) continue;
    parts.push_back(trimmed(list.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (const Text last = trimmed(list.substr(begin)); !last.empty()) parts.push_back(last);
  return parts;
}

template <class T>
T number_of(Text text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) refuse("the number " + std::string(text));
  return value;
}

// Of .b32 and the like.
uint8_t bytes_of_type(Text type) {
  if (type == ".pred") return kPredicateBytes;
  return static_cast<uint8_t>(number_of<int>(type.substr(type.find_first_of(kDigits))) / 8);
}

size_t rounded_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

// A variable in memory: .shared .align 4 .b8 name[2048].
struct Declaration {
  Text name;
  size_t bytes = 0;
  size_t alignment = 1;
  bool is_open = false;  // name[]: as large as the launch says
};

Declaration declaration_of(Text text) {
  Declaration result;
  size_t element = 0;
  for (;;) {
    const Text word = take_word(text);
    if (word == ".align") {
      result.alignment = number_of<size_t>(take_word(text));
    } else if (text.empty()) {
      const size_t bracket = word.find('[');
      result.name = word.substr(0, bracket);
      const Text count = bracket == Text::npos ? "1" : word.substr(bracket + 1, word.size() - bracket - 2);
      result.is_open = count.empty();
      result.bytes = result.is_open ? 0 : element * number_of<size_t>(count);
      result.alignment = std::max(result.alignment, element);
      return result;
    } else if (word.find_first_of(kDigits) != Text::npos) {
      element = bytes_of_type(word);
    }
  }
}

// Where a variable gets its place, at the end of what is there.
size_t place_for(const Declaration& variable, size_t& bytes) {
  const size_t place = rounded_up(bytes, variable.alignment);
  bytes = place + variable.bytes;
  return place;
}

struct Statement {
  Text text;
  int line;
};

// ---- A kernel

class Parser {
 public:
  Parser(Text module, Kernel& kernel) : module_(module), kernel_(kernel) {}

  bool parse();

 private:
  void parse_head(Text head);
  void read_statements(size_t body);
  void declare_shared_of_module();
  void declare_shared(const Declaration& variable);
  void declare(const Statement& statement);
  void declare_registers(Text text);
  void parse_instruction(const Statement& statement);
  bool parse_control(Text opcode, const std::vector<Text>& operands, Instruction& instruction);
  bool parse_access(Text opcode, const std::vector<Text>& operands, Instruction& instruction);
  void parse_operation(Text opcode, const std::vector<Text>& operands, Instruction& instruction);
  void parse_vector_move(uint8_t bytes, const std::vector<Text>& operands, Instruction& instruction);
  void parse_address(Text text, Instruction& instruction);
  std::vector<Operand> parse_vector(Text text, uint8_t bytes);
  Operand parse_operand(Text text, uint8_t bytes);
  Operand parse_register(Text text);
  Operand constant(uint64_t value, uint8_t bytes);
  Operand new_operand(uint8_t bytes, int count = 1);
  [[noreturn]] void refuse_statement() const;

  struct Bank {  // %r<52>
    Operand first;
    int count;
  };

  const Text module_;
  Kernel& kernel_;
  std::vector<Statement> statements_;
  Statement current_{};
  std::map<std::string, Bank, std::less<>> banks_;
  std::map<std::string, uint64_t, std::less<>> symbols_;  // variables and parameters: their addresses
  std::map<std::string, Operand, std::less<>> specials_;
  std::map<std::pair<uint64_t, uint8_t>, Operand> constants_;
  std::map<std::string, int, std::less<>> labels_;
  std::vector<std::pair<size_t, Text>> branches_;
};

void Parser::refuse_statement() const {
  refuse("line " + std::to_string(current_.line) + " of " + kernel_.name + ": " + std::string(current_.text));
}

bool Parser::parse() {
  const std::string entry = ".entry " + kernel_.name + "(";
  const size_t begin = module_.find(entry);
  if (begin == Text::npos) return false;
  const size_t body = module_.find('{', begin);
  parse_head(module_.substr(begin + entry.size(), body - begin - entry.size()));
  read_statements(body);
  declare_shared_of_module();
  for (const Statement& statement : statements_) {
    current_ = statement;
    if (statement.text[0] == '.') declare(statement);
  }
  for (const Statement& statement : statements_) {
    current_ = statement;
    if (statement.text.back() == ':') {
      labels_[std::string(statement.text.substr(0, statement.text.size() - 1))] =
          static_cast<int>(kernel_.code.size());
    } else if (statement.text[0] != '.') {
      parse_instruction(statement);
    }
  }
  for (const auto& [at, label] : branches_) {
    const auto target = labels_.find(label);
    if (target == labels_.end()) refuse("a branch to " + std::string(label) + " in " + kernel_.name);
    kernel_.code[at].target = target->second;
  }
  if (kernel_.code.empty() || kernel_.code.back().kind != Kind::exit)
    refuse(kernel_.name + ", which has no end");
  return true;
}

// Parameters) and directives.
void Parser::parse_head(Text head) {
  const size_t end = head.find(')');
  for (const Text parameter : parts_of(head.substr(0, end))) {
    const Declaration declaration = declaration_of(parameter);
    const size_t place = place_for(declaration, kernel_.parameter_bytes);
    kernel_.parameters.push_back({place, declaration.bytes});
    symbols_[std::string(declaration.name)] = place;
  }
  constexpr Text kMaxThreads = ".maxntid ";
  const size_t limit = head.find(kMaxThreads, end);
  if (limit == Text::npos) return;
  const Text threads = head.substr(limit + kMaxThreads.size());
  kernel_.max_threads = number_of<unsigned>(threads.substr(0, threads.find(',')));
}

// Braces within a body only limit the scope of names, which are the same registers here.
void Parser::read_statements(size_t body) {
  int line =
      1 + static_cast<int>(std::count(module_.begin(), module_.begin() + static_cast<ptrdiff_t>(body), '\n'));
  int depth = 0;
  for (size_t at = body; at < module_.size();) {
    const char first = module_[at];
    if (first == '\n') ++line;
    if (kBlanks.find(first) != Text::npos) {
      ++at;
    } else if (module_.substr(at, 2) == "//") {
      at = module_.find('\n', at);
    } else if (first == '{' || first == '}') {
      depth += first == '{' ? 1 : -1;
      ++at;
      if (depth == 0) return;
    } else {
      const size_t end = module_.find(first == '$' ? ':' : ';', at);
      const Text text = module_.substr(at, end - at + (first == '$' ? 1 : 0));
      statements_.push_back({trimmed(text), line});
      line += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
      at = end + 1;
    }
  }
  refuse(kernel_.name + ", which has no end");
}

// Those of the module that the kernel names. What the launch sizes comes last.
void Parser::declare_shared_of_module() {
  std::vector<Declaration> open;
  for (const Text start : {"\n.shared ", "\n.extern .shared "}) {
    for (size_t at = module_.find(start); at != Text::npos; at = module_.find(start, at + 1)) {
      const Declaration variable = declaration_of(trimmed(module_.substr(at, module_.find(';', at) - at)));
      const bool is_used = std::any_of(
          statements_.begin(), statements_.end(),
          [&](const Statement& statement) { return statement.text.find(variable.name) != Text::npos; });
      if (!is_used) continue;
      if (variable.is_open) {
        open.push_back(variable);
      } else {
        declare_shared(variable);
      }
    }
  }
  for (const Declaration& variable : open) declare_shared(variable);
}

void Parser::declare_shared(const Declaration& variable) {
  const auto [place, is_new] = symbols_.try_emplace(std::string(variable.name), 0);
  if (is_new) place->second = place_for(variable, kernel_.shared_bytes);
}

void Parser::declare(const Statement& statement) {
  if (statement.text.starts_with(".reg ")) {
    declare_registers(statement.text);
  } else if (statement.text.starts_with(".shared ")) {
    declare_shared(declaration_of(statement.text));
  } else if (statement.text.starts_with(".local ")) {
    const Declaration variable = declaration_of(statement.text);
    symbols_[std::string(variable.name)] = place_for(variable, kernel_.local_bytes);
  } else if (statement.text != ".pragma \"nounroll\"") {
    refuse_statement();
  }
}

void Parser::declare_registers(Text text) {
  take_word(text);
  const uint8_t bytes = bytes_of_type(take_word(text));
  const size_t bracket = text.find('<');
  const int count =
      bracket == Text::npos ? 1 : number_of<int>(text.substr(bracket + 1, text.find('>') - bracket - 1));
  const std::string name(text.substr(0, bracket));
  if (const auto known = banks_.find(name); known != banks_.end()) {  // of another scope
    if (known->second.first.bytes != bytes || known->second.count != count) refuse_statement();
    return;
  }
  banks_[name] = {new_operand(bytes, count), count};
}

size_t bytes_of_lanes(uint8_t bytes) {
  return bytes == kPredicateBytes ? sizeof(Lanes) : size_t{kLanes} * bytes;
}

Operand Parser::new_operand(uint8_t bytes, int count) {
  const Operand operand{static_cast<int32_t>(kernel_.register_bytes), kernel_.register_count, bytes};
  kernel_.register_bytes =
      rounded_up(kernel_.register_bytes + static_cast<size_t>(count) * bytes_of_lanes(bytes), 64);
  kernel_.register_count += count;
  return operand;
}

Operand Parser::constant(uint64_t value, uint8_t bytes) {
  const auto [known, is_new] = constants_.try_emplace({value, bytes});
  if (is_new) {
    known->second = new_operand(bytes);
    kernel_.constants.push_back({known->second, value});
  }
  return known->second;
}

Operand Parser::parse_register(Text text) {
  if (const auto special = specials_.find(text); special != specials_.end()) return special->second;
  constexpr std::pair<Text, Special> kSpecials[] = {{"%tid.x", Special::thread},
                                                    {"%ntid.x", Special::threads},
                                                    {"%ctaid.x", Special::block},
                                                    {"%nctaid.x", Special::blocks}};
  for (const auto& [name, which] : kSpecials) {
    if (text != name) continue;
    kernel_.specials.emplace_back(new_operand(4), which);
    return specials_[std::string(text)] = kernel_.specials.back().first;
  }
  if (const auto single = banks_.find(text); single != banks_.end()) return single->second.first;
  const size_t name_size = text.find_last_not_of(kDigits) + 1;
  const auto bank = banks_.find(text.substr(0, name_size));
  if (bank == banks_.end() || name_size == text.size()) refuse_statement();
  const int index = number_of<int>(text.substr(name_size));
  if (index >= bank->second.count) refuse_statement();
  Operand operand = bank->second.first;
  operand.place += index * static_cast<int>(bytes_of_lanes(operand.bytes));
  operand.number += index;
  return operand;
}

// `bytes`: of a lane, for what is no register.
Operand Parser::parse_operand(Text text, uint8_t bytes) {
  if (text == "_") return {};
  if (text[0] == '%') return parse_register(text);
  if (text.starts_with("0f") || text.starts_with("0d"))
    return constant(number_of<uint64_t>(text.substr(2), 16), bytes);
  if (text[0] == '-') return constant(static_cast<uint64_t>(number_of<int64_t>(text)), bytes);
  if (kDigits.find(text[0]) != Text::npos) return constant(number_of<uint64_t>(text), bytes);
  const auto symbol = symbols_.find(text);
  if (symbol == symbols_.end()) refuse_statement();
  return constant(symbol->second, bytes);
}

// {%r1, %r2}, or one operand.
std::vector<Operand> Parser::parse_vector(Text text, uint8_t bytes) {
  if (text[0] != '{') return {parse_operand(text, bytes)};
  std::vector<Operand> operands;
  for (const Text part : parts_of(text.substr(1, text.size() - 2)))
    operands.push_back(parse_operand(part, bytes));
  return operands;
}

// [%rd1+8]
void Parser::parse_address(Text text, Instruction& instruction) {
  if (text.front() != '[' || text.back() != ']') refuse_statement();
  text = text.substr(1, text.size() - 2);
  const size_t plus = text.find('+');
  if (plus != Text::npos) instruction.offset = number_of<int64_t>(trimmed(text.substr(plus + 1)));
  instruction.from.insert(instruction.from.begin(), parse_operand(trimmed(text.substr(0, plus)), 8));
}

void nothing(Warp&, const Instruction&, Lanes) {}

void Parser::parse_instruction(const Statement& statement) {
  Instruction instruction;
  instruction.text = statement.text;
  instruction.line = statement.line;
  Text text = statement.text;
  if (text[0] == '@') {
    Text guard = take_word(text).substr(1);
    instruction.negated = guard[0] == '!';
    instruction.guard = parse_register(guard.substr(instruction.negated ? 1 : 0));
  }
  const Text opcode = take_word(text);
  const std::vector<Text> operands = parts_of(text);
  if (!parse_control(opcode, operands, instruction) && !parse_access(opcode, operands, instruction)) {
    parse_operation(opcode, operands, instruction);
  }
  const Kind kind = instruction.kind;
  const bool must_be_of_all = kind == Kind::barrier || kind == Kind::warp_barrier || kind == Kind::shuffle;
  if (must_be_of_all && instruction.guard.exists()) refuse_statement();
  kernel_.code.push_back(std::move(instruction));
}

bool Parser::parse_control(Text opcode, const std::vector<Text>& operands, Instruction& instruction) {
  instruction.run = nothing;
  if (opcode == "bra" || opcode == "bra.uni") {
    instruction.kind = Kind::branch;
    branches_.emplace_back(kernel_.code.size(), operands.at(0));
  } else if (opcode == "ret") {
    instruction.kind = Kind::exit;
  } else if (opcode == "bar.sync" && operands == std::vector<Text>{"0"}) {
    instruction.kind = Kind::barrier;
  } else if (opcode == "bar.warp.sync") {
    instruction.kind = Kind::warp_barrier;
    instruction.run = meet;
    instruction.from.push_back(parse_operand(operands.at(0), 4));
  } else {
    return opcode == "membar.sys";
  }
  return true;
}

bool Parser::parse_access(Text opcode, const std::vector<Text>& operands, Instruction& instruction) {
  const size_t count = decode_access(opcode, instruction);
  if (count == 0) return false;
  const bool is_load = opcode.starts_with("ld."), has_result = is_load || opcode.starts_with("atom.");
  const size_t expected = is_load || !has_result ? 2 : 3;
  if (operands.size() != expected) refuse_statement();
  if (has_result) instruction.to = parse_vector(operands[0], instruction.bytes);
  if (!is_load) instruction.from = parse_vector(operands.back(), instruction.bytes);
  const std::vector<Operand>& data = is_load ? instruction.to : instruction.from;
  const bool fits = std::all_of(data.begin(), data.end(),
                                [&](const Operand& operand) { return operand.bytes >= instruction.bytes; });
  if (data.size() != count || !fits) refuse_statement();
  parse_address(operands[has_result ? 1 : 0], instruction);
  return true;
}

void Parser::parse_vector_move(uint8_t bytes, const std::vector<Text>& operands, Instruction& instruction) {
  const bool splits = operands[0][0] == '{';
  instruction.to = parse_vector(operands[0], bytes);
  instruction.from = parse_vector(operands[1], bytes);
  const std::vector<Operand>& parts = splits ? instruction.to : instruction.from;
  instruction.bytes = static_cast<uint8_t>(bytes / parts.size());
  instruction.run = splits ? split_parts : join_parts;
  for (const Operand& part : parts) {
    if (part.exists() && part.bytes != instruction.bytes) refuse_statement();
  }
}

void Parser::parse_operation(Text opcode, const std::vector<Text>& operands, Instruction& instruction) {
  const bool has_vector =
      std::any_of(operands.begin(), operands.end(), [](Text operand) { return operand[0] == '{'; });
  if (has_vector && opcode.starts_with("mov.b") && operands.size() == 2) {
    return parse_vector_move(bytes_of_type(opcode.substr(3)), operands, instruction);
  }
  const Operation* operation = find_operation(opcode);
  if (operation == nullptr) refuse_statement();
  const size_t count =
      static_cast<size_t>(std::count_if(std::begin(operation->from_bytes), std::end(operation->from_bytes),
                                        [](uint8_t bytes) { return bytes != 0; }));
  if (operands.size() != 1 + count) refuse_statement();
  instruction.run = operation->run;
  instruction.kind = operation->kind;
  // A shuffle's result may have a predicate: %r1|%p1.
  const size_t bar = operation->kind == Kind::shuffle ? operands[0].find('|') : Text::npos;
  instruction.to.push_back(parse_operand(trimmed(operands[0].substr(0, bar)), operation->to_bytes));
  bool fits = instruction.to[0].bytes == operation->to_bytes;
  for (size_t i = 0; i < count; ++i) {
    instruction.from.push_back(parse_operand(operands[1 + i], operation->from_bytes[i]));
    fits &= instruction.from[i].bytes == operation->from_bytes[i];
  }
  if (bar != Text::npos) instruction.to.push_back(parse_register(trimmed(operands[0].substr(bar + 1))));
  if (fits) return;
  if (operation->run_any_width == nullptr) refuse_statement();
  instruction.run = operation->run_any_width;
}

}  // namespace

std::unique_ptr<Kernel> parse_kernel(std::string_view module, const std::string& name) {
  auto kernel = std::make_unique<Kernel>();
  kernel->name = name;
  return Parser(module, *kernel).parse() ? std::move(kernel) : nullptr;
}

std::string architecture_of(std::string_view module) {
  constexpr std::string_view kTarget = ".target sm_";
  const size_t begin = module.find(kTarget);
  if (begin == std::string_view::npos) refuse("a module without a target");
  const std::string_view rest = module.substr(begin + kTarget.size());
  return std::string(rest.substr(0, rest.find_first_not_of("0123456789")));
}

}  // namespace ptx
