"""Studies with one mistake each, and what is said about it."""

from __future__ import annotations

from hyfdca.crypto.keys.identity import Identity
from tests.support.consortia import extra
from tests.support.labelled_files import add_column, blank


def spoil(organisation, **cells):
    """Return a change of some cells of a table, each the first in its column."""

    def change(files):
        for column, value in cells.items():
            files.organisations[organisation].table[column][0] = value

    return change


def setting(**settings):
    return lambda files: files.settings.update(settings)


def lose(organisation, column):
    return lambda files: files.organisations[organisation].table.pop(column)


def rename(organisation, column, name):
    def change(files):
        table = files.organisations[organisation].table
        table[name] = table.pop(column)

    return change


def lose_header(organisation):
    """Return what has the first row stand where the names should be."""

    def change(files):
        table = files.organisations[organisation].table
        files.organisations[organisation].table = {
            str(cells[0]): cells[1:] for cells in table.values()
        }

    return change


def empty(organisation):
    def change(files):
        for column in files.organisations[organisation].table.values():
            column.clear()

    return change


def same_labels(files):
    for organisation in files.organisations.values():
        organisation.table["y"] = ["ill"] * len(organisation.rows)


def weighted(value, key="weight_column", **spoilt):
    def change(files):
        add_column(files, key, "w", value)
        for name, cell in spoilt.items():
            own = files.organisations[name]
            own.table["w"] = [cell] * len(own.rows)

    return change


def spoil_ids(*names):
    def change(files):
        for name in names:
            ids = files.organisations[name].table["id"]
            ids[:] = [f"{name}-{number}" for number in range(len(ids))]

    return change


other_ids = spoil_ids("north", "city", "coast")


def repeat_name(files):
    files.organisations["coast"].extra = 'data = "coast.csv"\n[[clients]]\n'
    files.organisations["coast"].extra += 'name = "north"\ndata = "north.csv"'


KEY = Identity.generate().public.text


def same_key(files):
    for name in ("north", "coast"):
        files.organisations[name].extra = f'public_key = "{KEY}"'


BAD = {
    "labels disagree": (
        lambda f: f.organisations["coast"].table["y"].__setitem__(0, "neither"),
        "different labels .label_column 'y'. .* 'north' and 'coast' in 1 row",
    ),
    "duplicate IDs": (
        spoil("north", id="P001"),
        "'north': north.csv has 1 row with the ID of",
    ),
    "no label anywhere": (
        lambda f: blank(f, range(60)),
        "None of the 60 rows has a label and a weight above 0 at any organisation",
    ),
    "labels of others": (
        lambda f: blank(f, [1, 2], "coast"),
        "blank in 2 rows of 'coast' whose labels others have; set labels_visible_to",
    ),
    "weights disagree": (
        weighted(lambda row: 1.0, coast=2.0),
        "different weights .weight_column 'w'. .* 'north' and 'coast' in 10 rows",
    ),
    "negative weight": (
        weighted(lambda row: row - 3),
        "'north': north.csv has 3 rows with a weight that is negative .*'w'; weights",
    ),
    "blank weight": (
        weighted(lambda row: 1.0, city=""),
        "city.csv has 40 rows with a label but nothing in the weight_column 'w'",
    ),
    "weights of 0": (
        weighted(lambda row: 1.0, coast=0),
        "'coast': all 20 rows of coast.csv with a label have the weight 0",
    ),
    "infinite weight": (weighted(lambda row: "inf"), "negative or beyond 1e\\+100 in"),
    "text weight": (
        weighted(lambda row: "much"),
        "'north': column 'w' of north.csv has 40 cells that are not numbers; correct",
    ),
    "no weight column": (
        setting(weight_column='"w"'),
        "'north': north.csv has no column 'w'",
    ),
    "blank offset": (
        weighted(lambda row: 1.0, "offset_column", city=""),
        "'city': city.csv has 40 rows with nothing in the offset_column 'w'",
    ),
    "infinite offset": (
        weighted(lambda row: "-inf", "offset_column"),
        "north.csv has 40 rows with an offset beyond",
    ),
    "weights at some": (
        extra("city", 'weight_column = "x3"'),
        "'city' has a weight_column, but 'north' has labels and no weight_column",
    ),
    "offsets without a name": (
        lambda f: [extra(n, 'offset_column = "x2"')(f) for n in f.organisations],
        "offset_column, but .study. names none; add one there",
    ),
    "two roles": (
        setting(weight_column='"y"'),
        "'north' has the column 'y' as its label_column and as its weight_column",
    ),
    "label as a feature": (
        extra("city", 'features = ["x3", "y"]'),
        "features of organisation 'city' name 'y', which is its label_column",
    ),
    "class weight of numbers": (
        setting(loss='"squared"', class_weight='"balanced"'),
        "sets class_weight, but loss = .squared. is for numbers",
    ),
    "class weight of no class": (
        setting(class_weight="{sick = 2.0}"),
        "class_weight names 'sick', but the classes are 'ill' and 'well'",
    ),
    "wrong class weight": (
        setting(class_weight='"equal"'),
        "at study.class_weight: unknown value 'equal' .choose .balanced",
    ),
    "negative class weight": (
        setting(class_weight="{ill = -1}"),
        "a number of at least 0",
    ),
    "one class": (same_labels, "same label"),
    "no common ID": (other_ids, "No two of the 3 organisations .* share any of"),
    "one apart": (
        spoil_ids("coast"),
        "'coast' shares none of its 20 IDs .* lacks 3 of 5 features",
    ),
    "cells disagree": (
        spoil("city", x2="7.0"),
        "different values .* 'north' and 'city' in 1 row, in column 'x2'; correct them"
        '.* ignore = ."x2". below .*disagreeing_cells .*names first[.]$',
    ),
    "missing cell": (
        spoil("city", x3=""),
        "'city' has 1 missing cell in city.csv, .* column 'x3'; .*missing = \"mean\"",
    ),
    "blank ID": (
        spoil("city", id=""),
        "'city': city.csv has 1 row without an ID in column 'id'; .*id_column",
    ),
    "another name": (
        rename("city", "y", "Y "),
        r"'city': city.csv has no column 'y' \(did you mean 'Y'\?\); .*label = false",
    ),
    "no names": (
        lose_header("city"),
        "'city': city.csv has no column 'id', 'y' .its first line seems to be no line",
    ),
    "feature twice": (
        extra("city", 'features = ["x3", "x3"]'),
        "'city': features for city.csv are named twice, such as 'x3'; .*key features",
    ),
    "all ignored": (
        extra("city", 'ignore = ["x2", "x3", "x4"]'),
        "'city': city.csv has no feature columns besides ID, label and what ignore",
    ),
    "ignored by mistake": (
        extra("city", 'ignore = ["X33"]'),
        r"'city': city.csv has no column 'X33', which ignore names \(did you mean 'x3'"
        r"\?\); .*or use ignore in \[study\] for columns that only some tables have",
    ),
    "no ID named": (
        lambda f: f.settings.pop("id_column"),
        "'north': the study names no id_column for north.csv; set it to",
    ),
    "no label named": (
        lambda f: f.settings.pop("label_column"),
        "the study names no label_column for north.csv; set it, or write label = false",
    ),
    "other encoding": (
        setting(encoding='"utf-16"'),
        "'north': north.csv is not in the encoding utf-16; .*set encoding .*\"cp1252\"",
    ),
    "a delimiter that no reader knows": (
        setting(delimiter='"¦"'),
        "delimiter = '¦', which is not a printable ASCII character or a tab; save",
    ),
    "text cell": (spoil("city", x3="P001"), "'city': column 'x3' of city.csv has 1 c"),
    "infinite cell": (spoil("city", x3="inf"), "1 number that is infinite.*'x3'"),
    "no label column": (
        lose("north", "y"),
        "'north': north.csv has no column 'y'; .*, or write label = false below",
    ),
    "no ID column": (lose("north", "id"), "'north': north.csv has no column 'id'"),
    "no feature": (extra("city", 'features = ["x9"]'), "'city': .* no column 'x9'"),
    "unknown key": (
        setting(colour='"red"'),
        r"at study: unknown key `colour` \(the keys are allow_unshared, .*_column\)",
    ),
    "misspelt key": (
        setting(max_round="3"),
        r"unknown key `max_round` \(did you mean max_rounds",
    ),
    "unknown table": (
        extra("coast", "[sever]\nport = 1"),
        r"unknown key `sever` \(did you mean server",
    ),
    "unknown client key": (
        extra("city", "age = 3"),
        r"clients\[1\]: unknown key `age` \(the keys are data, decimal, delimiter, ",
    ),
    "no organisations": (
        lambda f: f.organisations.clear(),
        r"names no organisations; add a table \[\[clients\]\] with name and data for",
    ),
    "misspelt loss": (
        setting(loss='"logisitc"'),
        r"no loss 'logisitc' \(did you mean logistic\?\); choose one of",
    ),
    "no list": (setting(ignore='"a"'), "study.ignore: expected a list, got text;"),
    "no name": (lambda f: f.settings.pop("name"), "missing key `name`"),
    "wrong type": (
        setting(l2='"much"'),
        r'at study.l2: .* \(choose a number or "auto"\)',
    ),
    "wrong range": (
        setting(l2="-1"),
        "at study.l2: expected a number of at least 1e-100; corr",
    ),
    "not finite": (setting(l2="inf"), "at study.l2"),
    "wrong choice": (
        setting(scale='"minmax"'),
        "at study.scale: unknown value 'minmax' "
        r'\(choose "maxabs" or "none" or "standard"\); correct it',
    ),
    "wrong number": (
        setting(paillier_bits="1024"),
        r"at study.paillier_bits: .* \(choose 2048 or 3072\)",
    ),
    "wrong kind": (
        setting(participation='{kind = "some"}'),
        r'at study.participation.kind: .* \(choose "bernoulli" or "cyclic"\)',
    ),
    "wrong word": (
        setting(quorum='"most"'),
        r'at study.quorum: .* \(choose "all" or a number\)',
    ),
    "encryption": (setting(encryption='"rot13"'), 'at study.encryption.*"paillier"'),
    "quorum": (setting(quorum="4"), "quorum of 4 but has 3 organisations"),
    "no quorum": (setting(quorum="0"), "at study.quorum"),
    "no time": (setting(phase_timeout="0"), "at study.phase_timeout"),
    "no data": (
        extra("city", "# data ="),
        "'city' has no data in the study file",
    ),
    "host": (extra("coast", '[server]\nhost = "a b"'), "at server.host"),
    "port": (extra("coast", "[server]\nport = 70000"), "at server.port"),
    "no TOML": (setting(l2=""), "has a mistake"),
    "unknown loss": (setting(loss='"zero_one"'), "no loss 'zero_one'; choose one of"),
    "loss parameter": (setting(loss_parameter="3.0"), "takes no parameter"),
    "no number": (setting(loss='"squared"'), "'north' has 40 rows with a label"),
    "no file": (extra("city", 'data = "town.csv"'), "'city': the file "),
    "file format": (extra("city", 'data = "city.xls"'), "'city': cannot read city.xls"),
    "empty table": (empty("city"), "'city': the file city.csv has no rows"),
    "step": (
        setting(step='"line_search"', participation="0.5"),
        "needs every client in every round",
    ),
    "algorithm": (
        setting(algorithm='"magic"'),
        "algorithm must be one of auto, .*hyfdca.*, got 'magic'",
    ),
    "algorithm by number": (setting(algorithm="3"), "algorithm must be one of auto"),
    "no algorithm": (
        extra("coast", '[algorithm]\nstep = "safe"'),
        "step is a setting of algorithm 'hyfdca', not of 'auto'; name the algorithm",
    ),
    "another algorithm's setting": (
        setting(algorithm='"bundle"', step='"safe"'),
        "step is a setting of algorithm 'hyfdca', not of 'bundle'",
    ),
    "unknown setting": (
        extra("coast", '[algorithm]\nname = "bundle"\ncolour = "red"'),
        "algorithm 'bundle' has no setting 'colour'; it has: min_contributors, ",
    ),
    "setting's choice": (
        setting(step='"long"'),
        "step must be one of auto, paper, safe, line_search, got 'long'",
    ),
    "setting's range": (
        setting(min_rows="0"),
        "min_rows must be a whole number from 1, got 0",
    ),
    "setting's type": (
        setting(algorithm='"bundle"', sub_groups='"two"'),
        "sub_groups must be a whole number from 1, got 'two'",
    ),
    "table for a setting": (
        extra("coast", '[algorithm]\nname = "bundle"\nsub_groups = {n = 2}'),
        r"at algorithm\[...\]: expected",
    ),
    "no seconds": (setting(max_seconds="0"), "at study.max_seconds"),
    "no stall": (setting(stall_rounds="0"), "at study.stall_rounds"),
    "cells of nobody": (
        setting(uncovered='"refuse"'),
        r"^No organisation holds 20.0% of all cells \(60 of 300\), such as \d "
        "columns like 'x\\d' of the \\d+ rows that "
        r"('\w+' alone holds|.* and '\w+' alone hold); set uncovered = ",
    ),
    "mean without centring": (
        setting(uncovered='"mean"', scale='"maxabs"', penalise_intercept="true"),
        'uncovered = "mean" centres features, .* set scale = "standard"',
    ),
    "zero with centring": (
        setting(uncovered='"zero"', scale='"standard"'),
        'sets uncovered = "zero", but scale = "standard" centres',
    ),
    "unknown encoding": (
        setting(encoding='"klingon"'),
        "names the encoding 'klingon', which is unknown",
    ),
    "long delimiter": (
        extra("city", 'delimiter = ";;"'),
        r"at clients\[1\].delimiter: expected text of at most 1 character",
    ),
    "fraction label": (
        spoil("city", y="0.5"),
        "'city' has 1 row whose label is a fraction.*name a positive_label or set max",
    ),
    "few classes": (
        setting(max_classes="1"),
        r"at study.max_classes: expected a whole number of at least 2",
    ),
    "positive label": (setting(positive_label='"dead"'), "positive_label 'dead'"),
    "label of no one": (extra("coast", "label = false"), "duals of its rows"),
    "names twice": (repeat_name, "'north' more than once"),
    "key cut short": (
        extra("city", f'public_key = "{KEY[:-1]}"'),
        "public_key of organisation 'city' .*91 letters .* instead of 92",
    ),
    "key with a typing error": (
        extra("city", f'public_key = "{KEY[:-1]}{"B" if KEY[-1] == "A" else "A"}"'),
        "public_key of organisation 'city' .*typing error",
    ),
    "no key": (extra("city", 'public_key = ""'), "'city' .*begins with hyfdca1:"),
    "key twice": (same_key, "'north' and 'coast' have the same public_key"),
    "no epoch": (
        setting(key_epoch="0"),
        "at study.key_epoch: expected a whole number of at least 1",
    ),
    "far epoch": (setting(key_epoch=str(2**70)), "has a mistake"),
}
