"""Pictures of a report: each takes labels and numbers and gives one SVG, with its text alternative."""
