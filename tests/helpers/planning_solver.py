"""Plans by constraint programming (CP-SAT of OR-tools), written independently of the checker.

Starts of activities are on a grid of 15 minutes. A constraint can be required, left out, or required to be violated.
"""

from datetime import timedelta
from itertools import combinations
from random import Random

from ortools.sat.python import cp_model

from h2htalk_datasets.planning.problem import Entry
from h2htalk_datasets.planning.times import Span

STEP = 15
DAY = 1440
HALF = 720
HUMANE = (8 * 60, 20 * 60 + 30)  # where the shipped plans prefer to be


class Solver:
    """One model of a problem; `violated` is the number of the one constraint that must not hold."""

    def __init__(self, problem, *, violated=None, without=(), earlier=None, seed=0):
        self.problem, self.earlier, self.seed = problem, dict(earlier or {}), seed
        self.model = cp_model.CpModel()
        self.length = {one.label: one.minutes for one in problem.activities}
        self.who = {one.label: set(one.who) for one in problem.activities}
        self.place = {one.label: one.place for one in problem.activities}
        self.names = [(problem.start + timedelta(n)).strftime("%a") for n in range(problem.days)]
        self.now = self._point(problem.now) if problem.now else 0
        self.past = {label for label, entry in self.earlier.items() if entry.span.start < self.now}
        self.start = {label: self._variable(label) for label in self.length}
        self._no_clashes()
        for number, constraint in enumerate(problem.constraints):
            if number not in without:
                self._add(constraint.rule, number == violated)

    def solve(self, *, humane=False, fewest_changes=False, seconds=20.0):
        """A plan, or None if there is none."""
        if humane or fewest_changes:
            self._objective(humane, fewest_changes)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self.seed
        solver.parameters.randomize_search = bool(self.seed)
        status = solver.solve(self.model)
        assert status != cp_model.UNKNOWN, "no answer in time"
        if status == cp_model.INFEASIBLE:
            return None
        starts = {label: solver.value(start) for label, start in self.start.items()}
        self.changes = sum(
            starts[label] != entry.span.start for label, entry in self.earlier.items() if label in starts
        )
        return {label: Entry(label, Span(start, start + self.length[label])) for label, start in starts.items()}

    def random_weights(self, weights):
        """Prefer starts by random weights per label, for a sample of different plans."""
        self.model.minimize(sum(weight * self.start[label] for label, weight in weights.items()))

    def _variable(self, label):
        if label in self.past:
            return self.model.new_constant(self.earlier[label].span.start)
        first = -(-self.now // STEP) * STEP
        allowed = range(first, self.problem.days * DAY - self.length[label] + 1, STEP)
        return self.model.new_int_var_from_domain(cp_model.Domain.from_values(list(allowed)), label)

    def _point(self, text):
        day, clock = text.split()
        hours, minutes = clock.split(":")
        return self.names.index(day) * DAY + int(hours) * 60 + int(minutes)

    def _windows(self, text):
        """Spans, merged where they touch."""
        windows = []
        for part in text.split(";"):
            days, _, hours = part.strip().partition(" ")
            for day in self._days(days):
                start, end = self._hours(hours)
                windows.append([day * DAY + start, day * DAY + end])
        windows.sort()
        merged = windows[:1]
        for start, end in windows[1:]:
            if start <= merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([start, end])
        return merged

    def _days(self, text):
        if text == "daily":
            return [*range(self.problem.days)]
        days = []
        for part in text.split("+"):
            ends = part.split("-")
            days += range(self.names.index(ends[0]), self.names.index(ends[-1]) + 1)
        return days

    @staticmethod
    def _hours(text):
        named = {"": (0, DAY), "morning": (0, HALF), "afternoon": (HALF, DAY)}
        if text in named:
            return named[text]
        start, end = (int(clock[:2]) * 60 + int(clock[3:]) for clock in text.split("-"))
        return start, end if end > start else end + DAY

    def _no_clashes(self):
        for one, other in combinations(self.start, 2):
            if self.who[one] & self.who[other]:
                self._apart(one, other, 0)

    def _literal(self, name=""):
        return self.model.new_bool_var(name)

    def _apart(self, one, other, minutes):
        """One ends `minutes` before the other begins, or the reverse."""
        before = self._literal()
        after = self._literal()
        self.model.add(self.start[other] >= self.start[one] + self.length[one] + minutes).only_enforce_if(before)
        self.model.add(self.start[one] >= self.start[other] + self.length[other] + minutes).only_enforce_if(after)
        self.model.add_bool_or(before, after)

    def _add(self, rule, violated):
        # What only concerns the past cannot be violated any more.
        atoms = [atom for atom in getattr(self, f"_{rule.kind}")(rule) if not set(atom[0]) <= self.past]
        if violated:
            failures = [self._literal() for _ in atoms]
            for failure, (_, _, impose_failure) in zip(failures, atoms, strict=True):
                impose_failure(failure)
            self.model.add_bool_or(failures)
        else:
            for _, impose, _ in atoms:
                impose()

    def _within(self, label, domain):
        """An atom: the start is in a domain."""
        start = self.start[label]
        return (
            (label,),
            lambda: self.model.add_linear_expression_in_domain(start, domain),
            lambda literal: self.model.add_linear_expression_in_domain(start, domain.complement()).only_enforce_if(
                literal
            ),
        )

    def _linear(self, labels, holds, fails):
        return labels, lambda: self.model.add(holds), lambda literal: self.model.add(fails).only_enforce_if(literal)

    def _inside(self, labels, text):
        for label in labels:
            length = self.length[label]
            fitting = [[start, end - length] for start, end in self._windows(text) if end - start >= length]
            yield self._within(label, cp_model.Domain.from_intervals(fitting))

    def _avoiding(self, who, windows):
        for label in self.start:
            if set(who) & self.who[label]:
                overlapping = cp_model.Domain.from_intervals(
                    [[start - self.length[label] + 1, end - 1] for start, end in windows]
                )
                yield self._within(label, overlapping.complement())

    def _appointment(self, rule):
        return self._avoiding(rule.who, self._windows(rule.when))

    def _promise_free(self, rule):
        return self._avoiding(rule.who, self._windows(rule.free))

    def _sleep(self, rule):
        start, end = self._hours(rule.hours)
        days = self._days(rule.days) if rule.days else [-1, *range(self.problem.days)]
        return self._avoiding(rule.who, [[day * DAY + start, day * DAY + end] for day in days])

    def _opening(self, rule):
        labels = [one for one in self.start if self.place[one] == rule.place] if rule.place else rule.activities
        return self._inside(labels, rule.open)

    def _present(self, rule):
        return self._inside(rule.activities, rule.when)

    def _weather(self, rule):
        return self._inside(rule.activities, rule.dry)

    def _promise_time(self, rule):
        return self._inside(rule.activities, rule.when)

    def _deadline(self, rule):
        limit = self._point(rule.by) - self.length[rule.activity]
        start = self.start[rule.activity]
        yield self._linear([rule.activity], start <= limit, start > limit)

    def _earliest(self, rule):
        limit, start = self._point(rule.at), self.start[rule.activity]
        yield self._linear([rule.activity], start >= limit, start < limit)

    def _order(self, rule):
        distance = self.start[rule.then] - self.start[rule.first]
        least = self.length[rule.first] + rule.minutes
        yield self._linear([rule.first, rule.then], distance >= least, distance < least)

    def _day_of(self, label):
        day = self.model.new_int_var(0, self.problem.days - 1, "")
        self.model.add_division_equality(day, self.start[label], DAY)
        return day

    def _rest(self, rule):
        for one, other in combinations(rule.activities, 2):
            distance = self._day_of(one) - self._day_of(other)
            near = cp_model.Domain(-rule.days, rule.days)
            yield (
                (one, other),
                lambda distance=distance, near=near: self.model.add_linear_expression_in_domain(
                    distance, near.complement()
                ),
                lambda literal, distance=distance, near=near: self.model.add_linear_expression_in_domain(
                    distance, near
                ).only_enforce_if(literal),
            )

    def _travel(self, rule):
        for one, other in combinations(self.start, 2):
            if {self.place[one], self.place[other]} == set(rule.between) and self.who[one] & self.who[other]:
                yield self._travel_pair(one, other, rule.minutes)
        for constraint in self.problem.constraints:
            busy = constraint.rule
            if busy.kind != "appointment" or busy.place not in rule.between:
                continue
            for label in self.start:
                if set(busy.who) & self.who[label] and {self.place[label], busy.place} == set(rule.between):
                    length = self.length[label]
                    too_close = []
                    for start, end in self._windows(busy.when):
                        too_close += [
                            [start - rule.minutes + 1 - length, start - length],
                            [end, end + rule.minutes - 1],
                        ]
                    yield self._within(label, cp_model.Domain.from_intervals(too_close).complement())

    def _travel_pair(self, one, other, minutes):
        def fail(literal):
            first = self._literal()
            gap = self.start[other] - self.start[one] - self.length[one]
            self.model.add(gap >= 0).only_enforce_if(literal, first)
            self.model.add(gap < minutes).only_enforce_if(literal, first)
            back = self.start[one] - self.start[other] - self.length[other]
            self.model.add(back >= 0).only_enforce_if(literal, first.negated())
            self.model.add(back < minutes).only_enforce_if(literal, first.negated())

        return (one, other), lambda: self._apart(one, other, minutes), fail

    def _energy(self, rule):
        period = DAY if rule.per == "day" else HALF
        touches = {
            (label, number): self._touches(label, number * period, (number + 1) * period)
            for label in rule.demanding
            for number in range(self.problem.days * DAY // period)
        }
        for number in range(self.problem.days * DAY // period):
            count = sum(touches[label, number] for label in rule.demanding)
            yield self._linear(rule.demanding, count <= rule.most, count > rule.most)

    def _touches(self, label, start, end):
        literal = self._literal()
        touching = cp_model.Domain(start - self.length[label] + 1, end - 1)
        self.model.add_linear_expression_in_domain(self.start[label], touching).only_enforce_if(literal)
        self.model.add_linear_expression_in_domain(self.start[label], touching.complement()).only_enforce_if(
            literal.negated()
        )
        return literal

    def _budget(self, rule):
        costs = []
        for label, prices in rule.prices.items():
            taken = cp_model.Domain.from_values([])
            for price in prices:
                windows = self._windows(price.when) if price.when else [[0, self.problem.days * DAY]]
                domain = cp_model.Domain.from_intervals([[start, end - 1] for start, end in windows])
                own = domain.intersection_with(taken.complement())
                taken = taken.union_with(domain)
                literal = self._literal()
                self.model.add_linear_expression_in_domain(self.start[label], own).only_enforce_if(literal)
                self.model.add_linear_expression_in_domain(self.start[label], own.complement()).only_enforce_if(
                    literal.negated()
                )
                costs.append(price.cost * literal)
        total = sum(costs)
        yield self._linear([*rule.prices], total <= rule.most, total > rule.most)

    def _objective(self, humane, fewest_changes):
        terms = []
        for label, start in self.start.items():
            if fewest_changes and label in self.earlier:
                same = self._literal()
                self.model.add(start == self.earlier[label].span.start).only_enforce_if(same)
                terms.append(-10_000_000 * same)
            if humane:
                terms += self._discomfort(label, start)
        self.model.minimize(sum(terms))

    def _discomfort(self, label, start):
        clock = self.model.new_int_var(0, DAY - 1, "")
        self.model.add_modulo_equality(clock, start, DAY)
        early, late, quarter = (self.model.new_int_var(0, DAY, "") for _ in range(3))
        self.model.add(early >= HUMANE[0] - clock)
        self.model.add(late >= clock + self.length[label] - HUMANE[1])
        self.model.add_modulo_equality(quarter, start, 30)
        # Some activities tend to the beginning and some to the end, so that plans do not crowd into the first day.
        return [300 * early, 300 * late, 60 * quarter, Random(label).choice([-1, 1]) * start]
