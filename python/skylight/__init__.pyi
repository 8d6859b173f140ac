"""What `skylight` offers to Python: the names of `skylight.api`."""

from skylight.api import Drive as Drive
from skylight.api import Figure as Figure
from skylight.api import Finding as Finding
from skylight.api import IoBatch as IoBatch
from skylight.api import IoLog as IoLog
from skylight.api import KeepError as KeepError
from skylight.api import Op as Op
from skylight.api import Probed as Probed
from skylight.api import Served as Served
from skylight.api import SkylightError as SkylightError
from skylight.api import Stop as Stop
from skylight.api import TargetError as TargetError
from skylight.api import TargetFacts as TargetFacts
from skylight.api import UsageError as UsageError
from skylight.api import drives as drives
from skylight.api import open as open
from skylight.api import read as read
from skylight.api import serve as serve
from skylight.api import table as table

__version__: str
