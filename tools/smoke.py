"""Smoke test of the wheel, run where only its declared dependencies can be imported. Not shipped.

Every module of the package has been imported when this runs. What belongs here is one short use of the package.
"""

import graftax.tools

assert graftax.tools.__doc__, "the package says what it is for"
