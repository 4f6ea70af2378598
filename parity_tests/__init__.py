"""The court: `crosscheck` judges a PyTorch callable by a JAX function, for anybody's operator."""

from parity_tests.harness.candidate import Candidate as Candidate
from parity_tests.harness.crosscheck import crosscheck as crosscheck
from parity_tests.harness.findings import Verdict as Verdict
from parity_tests.harness.oracle import OracleError as OracleError
from parity_tests.harness.report import ParityError as ParityError
from parity_tests.harness.report import Report as Report
from parity_tests.harness.spec import OpSpec as OpSpec
