"""The public names, a line each: type checkers read it, and `__init__.py`, which imports each when it is first used."""

from parity_tests.auditing.audit import audit as audit
from parity_tests.auditing.findings import Audit as Audit
from parity_tests.certificate.certificate import Certificate as Certificate
from parity_tests.certificate.certify import certify as certify
from parity_tests.conversion.cannot_convert import CannotConvert as CannotConvert
from parity_tests.conversion.to_jax import Converted as Converted
from parity_tests.conversion.to_jax import to_jax as to_jax
from parity_tests.harness.candidates.array_candidate import ArrayCandidate as ArrayCandidate
from parity_tests.harness.candidates.configurations import configured as configured
from parity_tests.harness.candidates.dlpack_candidate import DLPackCandidate as DLPackCandidate
from parity_tests.harness.candidates.jax_candidate import JaxCandidate as JaxCandidate
from parity_tests.harness.candidates.mlx_candidate import MLXCandidate as MLXCandidate
from parity_tests.harness.candidates.torch_candidate import Candidate as Candidate
from parity_tests.harness.candidates.warp_candidate import WarpCandidate as WarpCandidate
from parity_tests.harness.crosscheck import assert_parity as assert_parity
from parity_tests.harness.crosscheck import crosscheck as crosscheck
from parity_tests.harness.findings import Verdict as Verdict
from parity_tests.harness.numbers.contracts import Arithmetic as Arithmetic
from parity_tests.harness.numbers.tolerances import to_tolerance as to_tolerance
from parity_tests.harness.oracle.oracle import OracleError as OracleError
from parity_tests.harness.report.report import ParityError as ParityError
from parity_tests.harness.report.report import Report as Report
from parity_tests.harness.specs.domains import Domain as Domain
from parity_tests.harness.specs.domains import integer as integer
from parity_tests.harness.specs.records import Input as Input
from parity_tests.harness.specs.records import Output as Output
from parity_tests.harness.specs.size_rules import AxisSize as AxisSize
from parity_tests.harness.specs.spec import OpSpec as OpSpec

_MODULES: dict[str, str]
